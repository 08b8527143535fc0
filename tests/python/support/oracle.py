"""What independent readers say about a store: the judge of zkit's answers.

The digest is that of the output contract: SHA-256 over the decoded elements in C order, little-endian, NaN payloads
kept; variable-length elements as a 4-byte little-endian length and the bytes, a null as ff ff ff ff; structs field by
field. It knows nothing of chunks, codecs or Zarr versions.
"""

import hashlib
import json
import logging
import pathlib
import struct
import warnings

import numcodecs
import numpy as np
import zarr

logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # zarr leaves failed reads of sibling arrays to it
warnings.filterwarnings("ignore", category=UserWarning, module="zarr")
warnings.filterwarnings("ignore", category=FutureWarning, module="zarr")


def digest(values):
    """Returns the content digest of a NumPy array."""
    return hashlib.sha256(element_bytes(np.asarray(values))).hexdigest()


def element_bytes(values):
    if values.dtype.kind in "OT":
        return b"".join(_variable_length(element) for element in values.ravel(order="C").tolist())
    return np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False)).tobytes(order="C")


def _variable_length(element):
    if element is None:
        return b"\xff\xff\xff\xff"
    if isinstance(element, str):
        element = element.encode()
    elif isinstance(element, np.ndarray):
        element = element.astype(element.dtype.newbyteorder("<")).tobytes()
    return struct.pack("<I", len(element)) + bytes(element)


# ---- nodes, found on disk rather than by a reader's own listing --------------------------------------------------


def nodes(store):
    """Yields (path, folder, zarr_format, node_type) of each node below a local store; v3 wins where both are."""
    store = pathlib.Path(store)
    for folder in sorted([store, *(p for p in store.rglob("*") if p.is_dir())]):
        path = "/" + folder.relative_to(store).as_posix().strip(".")
        if (folder / "zarr.json").is_file():
            yield path, folder, 3, json.loads((folder / "zarr.json").read_bytes())["node_type"]
        elif (folder / ".zarray").is_file():
            yield path, folder, 2, "array"
        elif (folder / ".zgroup").is_file():
            yield path, folder, 2, "group"


def array_folders(store):
    return {path: (folder, version) for path, folder, version, kind in nodes(store) if kind == "array"}


def attributes(folder, zarr_format):
    if zarr_format == 3:
        return json.loads((folder / "zarr.json").read_bytes()).get("attributes", {})
    file = folder / ".zattrs"
    return json.loads(file.read_bytes()) if file.is_file() else {}


def dimension_names(folder, zarr_format):
    """The names that each format's readers use; None where there are none."""
    if zarr_format == 3:
        return json.loads((folder / "zarr.json").read_bytes()).get("dimension_names")
    names = attributes(folder, 2).get("_ARRAY_DIMENSIONS")
    if names is None:
        references = json.loads((folder / ".zarray").read_bytes()).get("_NCZARR_ARRAY", {}).get("dimrefs")
        names = references and [name.rsplit("/", 1)[-1] for name in references]
    return names


# ---- values -----------------------------------------------------------------------------------------------------


def values(folder, zarr_format):
    """The decoded array as zarr-python reads it; v2 types that it refuses are read chunk by chunk with numcodecs."""
    try:
        return np.asarray(zarr.open_array(str(folder), mode="r", zarr_format=zarr_format)[...])
    except Exception:
        if zarr_format == 2:
            return values_by_numcodecs(folder)
        raise


def digests(store):
    """The digest of each array of a local store, by path."""
    return {path: digest(values(folder, version)) for path, (folder, version) in array_folders(store).items()}


def v2_dtype(descriptor):
    """The NumPy dtype of a v2 `dtype` member, nested structs and sub-arrays included."""
    if isinstance(descriptor, str):
        return np.dtype(descriptor)
    return np.dtype([(field[0], v2_dtype(field[1]), *map(tuple, field[2:])) for field in descriptor])


def values_by_numcodecs(folder):
    """A second v2 reader of thirty lines: NumPy, numcodecs and the specification."""
    metadata = json.loads((folder / ".zarray").read_bytes())
    dtype, shape, chunks = v2_dtype(metadata["dtype"]), metadata["shape"], metadata["chunks"]
    codecs = [numcodecs.get_codec(c) for c in [*(metadata["filters"] or []), metadata["compressor"]] if c]
    result = np.zeros(shape, dtype)
    fill = metadata["fill_value"]
    if fill not in (None, 0, ""):
        result[...] = fill
    for index in np.ndindex(*(-(-s // c) for s, c in zip(shape, chunks, strict=True))):
        key = folder / (metadata.get("dimension_separator", ".").join(map(str, index)) or "0")
        if not key.is_file():
            continue
        chunk = decode_chunk(key.read_bytes(), codecs, dtype).reshape(chunks, order=metadata["order"])
        region = tuple(slice(i * c, min((i + 1) * c, s)) for i, c, s in zip(index, chunks, shape, strict=True))
        result[region] = chunk[tuple(slice(0, r.stop - r.start) for r in region)]
    return result


def decode_chunk(data, codecs, dtype):
    for codec in reversed(codecs):
        data = codec.decode(data)
    if isinstance(data, np.ndarray) and data.dtype == object:
        return data
    return np.frombuffer(np.ascontiguousarray(data).tobytes(), dtype)


# ---- xarray -----------------------------------------------------------------------------------------------------


def datasets(store):
    """Each group as xarray decodes it (masks, scales, times), by path; groups that xarray refuses are left out."""
    import xarray

    opened = {}
    groups = [path for path, _, _, kind in nodes(store) if kind == "group"]
    for path in groups:
        try:
            opened[path] = xarray.open_zarr(
                str(store), group=path.strip("/") or None, chunks=None, consolidated=False
            ).load()
        except Exception as error:
            opened[path] = error
    return {path: dataset for path, dataset in opened.items() if not isinstance(dataset, Exception)}
