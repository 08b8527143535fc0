"""The small stores that faults are put into, written byte by byte, and what a whole copy of them holds.

    files = written(NODES, "v2")             # {key: bytes}
    lost(tmp_path / "copy.zarr", NODES)      # what the copy lacks, as sentences; [] for a whole one

Nothing here uses a library for Zarr: a few hundred bytes a store, and thousands of stores.
"""

import gzip
import json
import pathlib
import zlib
from dataclasses import dataclass, replace

import numpy as np

LEVELS = 40


@dataclass(frozen=True)
class Node:
    """A group, or an array where there are values. `implicit` groups have no document."""

    path: str
    attributes: dict
    dimensions: tuple = ()
    values: np.ndarray = None
    chunks: tuple = ()
    implicit: bool = False

    def document_folder(self):
        return self.path.strip("/") + "/" if self.path != "/" else ""


def grid(first, step=1):
    return np.arange(first, first + 8 * step, step, dtype="<i2").reshape(4, 2)


def nodes(offset=0):
    """The nodes of a store whose coordinate starts at `offset`."""
    days = np.arange(offset, offset + 4, dtype="<i4")
    packed = {"scale_factor": 0.01, "add_offset": 273.15, "units": "K", "long_name": "température"}
    return [
        Node("/", {"title": "naïve", "history": "written for a test"}),
        Node("/valid_time", {"units": "days since 2000-01-01", "calendar": "standard"}, ("valid_time",), days, (4,)),
        Node("/t2m", packed, ("valid_time", "y"), grid(offset * 2 + 1), (2, 2)),
        Node("/mask", {"flag_meanings": "sea land"}, ("y",), np.array([1, 2], "<i2"), (2,)),
        Node("/inner", {"level": "inner"}),
        Node("/inner/t2m", packed, ("valid_time", "y"), grid(offset * 20 + 100, 10), (2, 2)),
    ]


def extra_nodes():
    """A store that another one is merged with."""
    known = {node.path: node for node in nodes()}
    extra = replace(known["/t2m"], path="/extra", values=grid(50))
    return [Node("/", {}), known["/valid_time"], extra]


def array_node():
    """A store that is one array."""
    return [replace(next(node for node in nodes() if node.path == "/t2m"), path="/")]


def implicit_nodes(levels, offset=0):
    """A store in which folders without a document of their own lie between the root and an array."""
    return _below(nodes(offset), levels, implicit=True)


def deep_nodes(offset=0):
    return _below(nodes(offset), LEVELS, implicit=False)


def _below(known, levels, implicit):
    path, added = "", []
    for level in range(levels):
        path += f"/folder_{level}"
        added.append(Node(path, {} if implicit else {"depth": level}, implicit=implicit))
    array = next(node for node in known if node.path == "/inner/t2m")
    return [*known, *added, replace(array, path=path + "/t2m", values=array.values + 3)]


# ---- written ----------------------------------------------------------------------------------------------------


def as_json(document):
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def written(known, layout, compressed=True):
    """The files of a store: {key: bytes}. Layouts: v2, v3, and these `consolidated`."""
    version, _, consolidated = layout.partition(" ")
    files, documents = {}, {}
    for node in known:
        if node.values is not None:
            files.update(_chunks(node, version, compressed))
        if not node.implicit:
            for name, document in (_v2_documents if version == "v2" else _v3_documents)(node, compressed):
                documents[node.document_folder() + name] = document
    if consolidated == "consolidated" and version == "v2":
        documents[".zmetadata"] = {"zarr_consolidated_format": 1, "metadata": dict(documents)}
    if consolidated == "consolidated" and version == "v3":
        inner = {key.removesuffix("/zarr.json"): document for key, document in documents.items() if key != "zarr.json"}
        documents["zarr.json"]["consolidated_metadata"] = {
            "kind": "inline",
            "must_understand": False,
            "metadata": {path: dict(document) for path, document in inner.items()},
        }
    return {**{key: as_json(document) for key, document in documents.items()}, **files}


def _v2_documents(node, compressed):
    if node.values is None:
        yield ".zgroup", {"zarr_format": 2}
        yield ".zattrs", node.attributes
        return
    yield (
        ".zarray",
        {
            "zarr_format": 2,
            "shape": list(node.values.shape),
            "chunks": list(node.chunks),
            "dtype": node.values.dtype.str,
            "compressor": {"id": "zlib", "level": 1} if compressed else None,
            "filters": None,
            "order": "C",
            "fill_value": -1,
        },
    )
    yield ".zattrs", {"_ARRAY_DIMENSIONS": list(node.dimensions), **node.attributes}


def _v3_documents(node, compressed):
    if node.values is None:
        yield "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": node.attributes}
        return
    yield (
        "zarr.json",
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(node.values.shape),
            "data_type": node.values.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(node.chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": -1,
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                *([{"name": "gzip", "configuration": {"level": 1}}] if compressed else []),
            ],
            "attributes": node.attributes,
            "dimension_names": list(node.dimensions),
        },
    )


def _chunks(node, version, compressed):
    counts = [length // chunk for length, chunk in zip(node.values.shape, node.chunks, strict=True)]
    for index in np.ndindex(*counts):
        box = tuple(slice(i * chunk, (i + 1) * chunk) for i, chunk in zip(index, node.chunks, strict=True))
        data = node.values[box].tobytes()
        names = [str(i) for i in index]
        key = ".".join(names) if version == "v2" else "c/" + "/".join(names)
        packed = zlib.compress(data, 1) if version == "v2" else gzip.compress(data, 1, mtime=0)
        yield node.document_folder() + key, packed if compressed else data


# ---- read again -------------------------------------------------------------------------------------------------


def lost(store, known, *, consolidated=False, left_out=()):
    """What a local, uncompressed copy lacks of the nodes, as sentences; more than they hold is no loss.

    Nodes below a path of `left_out` need not be there.
    """
    store, found = pathlib.Path(store), []
    for node in known:
        if any(node.path == path or node.path.startswith(path.rstrip("/") + "/") for path in left_out):
            continue
        try:
            found += _lost_of(store / node.path.strip("/"), node)
        except (OSError, ValueError, KeyError, TypeError) as error:
            found.append(f"{node.path} cannot be read: {type(error).__name__} {error}"[:160])
    if consolidated and not _is_consolidated(store):
        found.append("consolidated metadata is gone")
    return found


def _is_consolidated(store):
    if (store / ".zmetadata").is_file():
        return True
    root = store / "zarr.json"
    return root.is_file() and "consolidated_metadata" in json.loads(root.read_bytes())


def _lost_of(folder, node):
    if not folder.is_dir() and node.implicit:
        return []  # its arrays are looked at by themselves
    if not folder.is_dir():
        return [f"{node.path} is not there"]
    v3 = folder / "zarr.json"
    if v3.is_file():
        document = json.loads(v3.read_bytes())
        attributes = document.get("attributes", {})
        is_array = document["node_type"] == "array"
        dimensions = document.get("dimension_names") or []
    elif node.implicit and not (folder / ".zgroup").is_file():
        return []
    else:
        is_array = (folder / ".zarray").is_file()
        document = json.loads((folder / (".zarray" if is_array else ".zgroup")).read_bytes())
        attributes = json.loads((folder / ".zattrs").read_bytes()) if (folder / ".zattrs").is_file() else {}
        dimensions = attributes.get("_ARRAY_DIMENSIONS", [])
    if is_array != (node.values is not None):
        return [f"{node.path} is a {'array' if is_array else 'group'}"]
    gone = [name for name, value in node.attributes.items() if attributes.get(name) != value]
    found = [f"{node.path} lost its attributes {', '.join(gone)}"] if gone else []
    if is_array:
        if tuple(dimensions) != node.dimensions:
            found.append(f"{node.path} has dimensions {dimensions}")
        values = _values(folder, document)
        if values.shape != node.values.shape or (values != node.values).any():
            found.append(f"{node.path} holds {values.ravel().tolist()}, not {node.values.ravel().tolist()}")
    return found


def _values(folder, document):
    """The values of an array whose chunks are not compressed."""
    if document["zarr_format"] == 3:
        chunks, data_type = document["chunk_grid"]["configuration"]["chunk_shape"], np.dtype(document["data_type"])
        codecs = [codec["name"] for codec in document["codecs"]]
        if codecs != ["bytes"]:
            raise ValueError(f"codecs {codecs}")
        encoding = document["chunk_key_encoding"]
        prefix = "c" if encoding["name"] == "default" else ""
        separator = encoding.get("configuration", {}).get("separator", "/" if prefix else ".")
    else:
        chunks, data_type, prefix = document["chunks"], np.dtype(document["dtype"]), ""
        separator = document.get("dimension_separator", ".")
        if document["compressor"] is not None:
            raise ValueError(f"compressor {document['compressor']}")
    shape = document["shape"]
    fill = document["fill_value"]
    values = np.full(shape, 0 if fill is None else fill, data_type.newbyteorder("<"))
    for index in np.ndindex(*[-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True)]):
        key = separator.join(([prefix] if prefix else []) + [str(i) for i in index])
        file = folder / key
        if file.exists():
            box = tuple(slice(i * chunk, (i + 1) * chunk) for i, chunk in zip(index, chunks, strict=True))
            whole = np.frombuffer(file.read_bytes(), values.dtype).reshape(chunks)
            inside = tuple(slice(0, length) for length in values[box].shape)
            values[box] = whole[inside]
    return values
