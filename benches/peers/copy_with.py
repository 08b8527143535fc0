"""Copies a store once with one Python peer: copy_with.py PEER SOURCE DESTINATION CODEC [CHUNKS].

CODEC is blosc or zstd. With CHUNKS (160,32,32) tensorstore rechunks in slabs, as one would write it by hand.
"""

import json
import pathlib
import sys
import warnings
from collections import deque

warnings.simplefilter("ignore")
BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "zstd", "clevel": 3, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 0},
}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}


def with_zarr_python(source, destination, codec):
    import zarr
    from zarr.codecs import BloscCodec, ZstdCodec

    compressor = (
        BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle", typesize=4) if codec == "blosc" else ZstdCodec(level=3)
    )
    group = zarr.open_group(destination, mode="w", zarr_format=3)
    for name, array in zarr.open_group(source, mode="r").arrays():
        copy = group.create_array(
            name, shape=array.shape, chunks=array.chunks, dtype=array.dtype, compressors=compressor
        )
        for start in range(0, array.shape[0], 8 * array.chunks[0]):
            copy[start : start + 8 * array.chunks[0]] = array[start : start + 8 * array.chunks[0]]


def with_xarray(source, destination, codec):
    import xarray
    from zarr.codecs import BloscCodec, ZstdCodec

    compressor = (
        BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle", typesize=4) if codec == "blosc" else ZstdCodec(level=3)
    )
    dataset = xarray.open_zarr(source, chunks={})
    for variable in dataset.variables.values():
        variable.encoding = {}
    dataset.to_zarr(
        destination,
        mode="w",
        zarr_format=3,
        consolidated=False,
        encoding={name: {"compressors": [compressor]} for name in dataset.variables},
    )


def tensorstore_copy(array, chunks, codec, path, context):
    """An empty array of Zarr v3 for the elements of another."""
    import tensorstore

    metadata = {
        "shape": list(array.shape),
        "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, BLOSC if codec == "blosc" else ZSTD],
    }
    kvstore = {"driver": "file", "path": path, "file_io_sync": False}
    spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata}
    return tensorstore.open(spec, create=True, context=context).result()


def with_tensorstore(source, destination, codec):
    """One map at a time, a few in flight: the whole-array copy would hold everything in memory."""
    import tensorstore

    context = tensorstore.Context()
    pathlib.Path(destination).mkdir()
    (pathlib.Path(destination) / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    for file in sorted(pathlib.Path(source).glob("*/.zarray")):
        kvstore = {"driver": "file", "path": str(file.parent)}
        array = tensorstore.open({"driver": "zarr", "kvstore": kvstore}, context=context).result()
        chunks = list(array.chunk_layout.read_chunk.shape)
        copy = tensorstore_copy(array, chunks, codec, f"{destination}/{file.parent.name}", context)
        writes = deque()
        for start in range(0, array.shape[0], chunks[0]):
            writes.append(copy[start : start + chunks[0]].write(array[start : start + chunks[0]].read().result()))
            if len(writes) > 8:
                writes.popleft().result()
        for write in writes:
            write.result()


def in_slabs_with_tensorstore(source, destination, codec, chunks):
    """Slabs along the dimension that the new chunks cut most, a chunk each: every source chunk is read for each slab that
    it lies in, through a cache that holds the array's chunks where memory allows."""
    import tensorstore

    chunks = [int(length) for length in chunks.split(",")]
    context = tensorstore.Context({"cache_pool": {"total_bytes_limit": 256 << 20}})
    pathlib.Path(destination).mkdir()
    (pathlib.Path(destination) / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    for file in sorted(pathlib.Path(source).glob("*/.zarray")):
        kvstore = {"driver": "file", "path": str(file.parent)}
        array = tensorstore.open({"driver": "zarr", "kvstore": kvstore}, context=context).result()
        shape, old = list(array.shape), array.chunk_layout.read_chunk.shape
        new = [min(a, b) for a, b in zip(chunks, shape, strict=True)] if len(shape) == len(chunks) else shape
        copy = tensorstore_copy(array, new, codec, f"{destination}/{file.parent.name}", context)
        # along the first dimension where chunks grow there, else in bands of a quarter of the second
        axis = 0 if new[0] < shape[0] or len(shape) == 1 else 1
        step = max(new[axis], old[axis] if axis == 0 else -(-shape[axis] // 4 // new[axis]) * new[axis])
        for start in range(0, shape[axis], step):
            slab = tuple(
                slice(start, min(start + step, shape[axis])) if d == axis else slice(None) for d in range(len(shape))
            )
            copy[slab].write(array[slab].read().result()).result()


PEERS = {"zarr-python": with_zarr_python, "xarray": with_xarray, "tensorstore": with_tensorstore}
RECHUNKERS = {"tensorstore, slabs": in_slabs_with_tensorstore}

if __name__ == "__main__":
    {**PEERS, **RECHUNKERS}[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({"peer": sys.argv[1]}))
