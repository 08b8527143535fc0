"""Stores whose every name tries to leave the place where it is shown."""

import json
import struct

NAMES = [
    "<script>alert(1)<script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "%0A::error::injected",
    "line\nbreak\r\n::error::injected",
    "]]><evil>",
    "&lt;&#x3c;&amp;",
    "{{ 7 * 7 }}{% raw %}",
    "esc\x1b[31mred\x1b[2J",
    "c1\x9b2J",
    "\u202egpj.exe",
    "a,b:c::d",
    "javascript:alert(1)",
    "**bold** [x](https:evil.example) `code`",
    "n" * 250,
]


def array(name):
    """The metadata of an array of which no chunk is stored; the name stands in all texts."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [40, 6],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN",
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {name: name, "units": name},
        "dimension_names": [name, "</svg><script>"],
    }


def write(folder):
    """Writes one store of hostile arrays into `folder`, which it returns."""
    store = folder / "<b>&\"'%3A%0A,::.zarr"
    for name in NAMES:
        node = store / name
        node.mkdir(parents=True)
        (node / "zarr.json").write_text(json.dumps(array(name)))
    # a chunk of each second array, and a cut off one, so that some grids are drawn
    for name in NAMES[::2]:
        chunk = store / name / "c" / "0" / "0"
        chunk.parent.mkdir(parents=True)
        chunk.write_bytes(struct.pack("<12f", *[float("nan")] * 5, *range(7)))
        chunk.with_name("1").write_bytes(b"cut off")
    (store / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))
    return store
