"""Judges a recompressed copy with readers that share no code with zkit: zarr-python, xarray and tensorstore."""

import json
import pathlib

import tensorstore
import xarray

import oracle

# What the fill-value rules may change when the format does, and nothing else.
DOCUMENTED_ATTRIBUTES = {"_FillValue", "_ARRAY_DIMENSIONS"}
NUMBERS = {
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
}

TENSORSTORE_CODECS = {"transpose", "bytes", "blosc", "zstd", "gzip", "crc32c", "sharding_indexed"}


class Source:
    """A store to copy from, with everything that a copy is compared with; read once."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.folders = oracle.array_folders(path)
        self.values = {p: oracle.values(folder, version) for p, (folder, version) in self.folders.items()}
        self.digests = {p: oracle.digest(values) for p, values in self.values.items()}
        self.datasets = oracle.datasets(path)
        self.attributes = attributes_of(path)
        self.dimensions = {p: oracle.dimension_names(*where) for p, where in self.folders.items()}
        self.consolidated = is_consolidated(self.path)


def attributes_of(store):
    """The attributes of each node as JSON text, so that NaN equals NaN and 1 differs from 1.0."""
    found = {}
    for path, folder, version, _ in oracle.nodes(store):
        attributes = oracle.attributes(folder, version)
        found[path] = json.dumps({k: v for k, v in attributes.items() if k not in DOCUMENTED_ATTRIBUTES})
    return found


def is_consolidated(store):
    root = store / "zarr.json"
    return (store / ".zmetadata").is_file() or (
        root.is_file() and "consolidated_metadata" in json.loads(root.read_bytes())
    )


def assert_faithful(source, copy, *, zarr_format, codec):
    """Asserts that `copy` holds what `source` does, in the format and with the codec (None: any) of the wish."""
    folders = oracle.array_folders(copy)
    assert sorted(folders) == sorted(source.folders)
    if zarr_format != "keep":
        assert {version for _, version in folders.values()} == {int(zarr_format)}
    assert oracle.digests(copy) == source.digests
    assert attributes_of(copy) == source.attributes
    for path, where in folders.items():
        assert (oracle.dimension_names(*where) or []) == (source.dimensions[path] or []), path
        if codec and source.values[path].dtype.name in NUMBERS:
            assert_codec(*where, codec)
    assert is_consolidated(copy) or not source.consolidated
    assert_equal_datasets(source, copy)
    assert_tensorstore_agrees(source, folders)


def assert_codec(folder, version, codec):
    text = (folder / ("zarr.json" if version == 3 else ".zarray")).read_text()
    for word in codec.split(":")[:2] if codec.startswith("blosc") else codec.split(":")[:1]:
        assert f'"{word}"' in text, f"{folder.name} is not {codec}: {text}"


def assert_equal_datasets(source, copy):
    """Decoded datasets are identical: values, masks, times, names and attributes."""
    copies = oracle.datasets(copy)
    for group, dataset in source.datasets.items():
        assert group in copies, f"xarray opens {group} of the source but not of the copy"
        left, right = visible(dataset), visible(copies[group])
        for name in set(left.variables) & set(right.variables):
            # zkit says so: xarray cannot mark missing text in v3, nor times
            if right[name].dtype.kind in "SUTO" and left[name].dtype.kind == "O":
                right[name] = right[name].astype(object).where(left[name].notnull())
                left[name] = left[name].astype(object)
            if right[name].dtype.kind in "Mm":
                left[name].attrs.pop("_FillValue", None)
                right[name].attrs.pop("_FillValue", None)
        xarray.testing.assert_identical(left, right)


def visible(dataset):
    """xarray hides NCZarr's own attributes where NCZarr's dimensions name the axes, and shows them elsewhere."""
    dataset = dataset.copy()
    for node in [dataset, *dataset.variables.values()]:
        node.attrs = {key: value for key, value in node.attrs.items() if not key.lower().startswith("_nc")}
    return dataset


def assert_tensorstore_agrees(source, folders):
    for path, (folder, version) in folders.items():
        values = source.values[path]
        if values.dtype.name not in NUMBERS or values.size == 0 or not tensorstore_reads(folder, version):
            continue
        spec = {
            "driver": "zarr3" if version == 3 else "zarr",
            "kvstore": {"driver": "file", "path": str(folder)},
        }
        read = tensorstore.open(spec, open=True, read=True).result().read().result()
        assert oracle.digest(read) == source.digests[path], f"tensorstore reads {path} differently"


def tensorstore_reads(folder, version):
    """Whether tensorstore has the codecs of an array, and keeps the bits of its fill value."""
    metadata = json.loads((folder / ("zarr.json" if version == 3 else ".zarray")).read_bytes())
    if str(metadata["fill_value"]).startswith("0x"):
        return False  # a signalling NaN becomes a quiet one
    if version == 2:
        return not metadata["filters"] and (metadata["compressor"] or {"id": "none"})["id"] in (
            "none",
            "blosc",
            "zstd",
        )
    names = [codec["name"] for codec in metadata["codecs"]]
    return set(names) <= TENSORSTORE_CODECS and "sharding_indexed" not in names[:-1]
