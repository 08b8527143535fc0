"""Stores to lay out anew, and what the metadata of a copy says of its chunks."""

import json
import math
import struct

import numpy as np
import zarr
from zarr.codecs import BytesCodec, TransposeCodec, ZstdCodec

import gen_v2
import gen_v3
import oracle

DIMENSIONS = ("time", "lat", "lon")


def metadata(folder, zarr_format):
    return json.loads((folder / ("zarr.json" if zarr_format == 3 else ".zarray")).read_bytes())


def grid_of(folder, zarr_format):
    """(chunk shape, shard shape or None) of an array, from its metadata alone."""
    document = metadata(folder, zarr_format)
    if zarr_format == 2:
        return tuple(document["chunks"]), None
    stored = tuple(document["chunk_grid"]["configuration"]["chunk_shape"])
    for codec in document["codecs"]:
        if codec["name"] == "sharding_indexed":
            return tuple(codec["configuration"]["chunk_shape"]), stored
    return stored, None


def grids(store):
    return {path: grid_of(*where) for path, where in oracle.array_folders(store).items()}


def stored_chunks(folder):
    """The objects of an array, as keys relative to it."""
    metadata_names = {".zarray", ".zattrs", "zarr.json"}
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and p.name not in metadata_names}


def objects(store):
    return sum(1 for p in store.rglob("*") if p.is_file())


def asked(lengths, shape, dimensions):
    """The chunk shape that lengths by dimension mean; None is `all of it`."""
    return {d: n if lengths[d] == -1 else min(lengths[d], n) for d, n in zip(dimensions, shape, strict=True)}


def text_of(lengths):
    return ",".join(f"{name}={length}" for name, length in lengths.items())


def awkward(shape, dtype="<f4"):
    """Weather-like floats with NaNs of several payloads (quiet and signalling, both signs) and negative zeros."""
    dtype = np.dtype(dtype)
    count = math.prod(shape)
    values = (np.arange(count) * 37 % 1009 / 8 - 20).astype(dtype.newbyteorder("="))
    bits = values.view(f"u{dtype.itemsize}")
    payloads = (
        [0x7FC00000, 0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 0x00000001]
        if dtype.itemsize == 4
        else [0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000012345678, 0x7FF0000000000001, 1 << 63, 1]
    )
    for i, payload in enumerate(payloads):
        bits[i * 7 :: 97] = payload
    return values.reshape(shape).astype(dtype, copy=False) if dtype.byteorder != ">" else swapped(values, shape)


def swapped(values, shape):
    """Big-endian values with the same bits; a cast may quieten signalling NaNs."""
    return values.byteswap().view(values.dtype.newbyteorder(">")).reshape(shape)


def coordinates_v2(store, shape):
    for name, length in zip(DIMENSIONS, shape, strict=True):
        gen_v2.v2(store / name, np.arange(length, dtype="<f8"), chunks=(length,), dims=[name], fill=None)


def cube_v2(store, values, chunks, *, array="t2m", **options):
    """A v2 store with one variable of three named dimensions, its coordinates, and attributes."""
    gen_v2.group(store, {"title": "a cube", "nested": {"a": [1, 2.5, None]}})
    coordinates_v2(store, values.shape)
    gen_v2.v2(store / array, values, chunks=chunks, dims=list(DIMENSIONS), **options)
    return store


def cube_v3(store, values, chunks, *, array="t2m", **options):
    zarr.create_group(str(store), zarr_format=3, attributes={"title": "a cube"})
    for name, length in zip(DIMENSIONS, values.shape, strict=True):
        gen_v3.v3(store, name, np.arange(length, dtype="<f8"), chunks=(length,), dimension_names=(name,))
    gen_v3.v3(store, array, values, chunks=chunks, dimension_names=DIMENSIONS, attributes={"units": "K"}, **options)
    return store


CUBES = {
    "v2": lambda store, values, chunks: cube_v2(store, values, chunks, fill="NaN"),
    "v2_f_order": lambda store, values, chunks: cube_v2(store, values, chunks, order="F", fill=None, separator="/"),
    "v2_big_endian": lambda store, values, chunks: cube_v2(
        store, swapped(values.ravel(), values.shape), chunks, fill=-9.5
    ),
    "v3": lambda store, values, chunks: cube_v3(store, values, chunks, compressors=ZstdCodec()),
    "v3_transposed": lambda store, values, chunks: cube_v3(
        store, values, chunks, filters=[TransposeCodec(order=(2, 0, 1))]
    ),
    "v3_big_endian": lambda store, values, chunks: cube_v3(
        store, values, chunks, serializer=BytesCodec(endian="big"), fill=np.float32("nan")
    ),
    "v3_sharded": lambda store, values, chunks: cube_v3(
        store, values, chunks, shards=tuple(2 * n for n in chunks), compressors=ZstdCodec()
    ),
}


def float_bits(number):
    return struct.unpack("<f", struct.pack("<I", number))[0]
