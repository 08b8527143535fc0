"""Copies a store once with one Python peer: copy_with.py PEER SOURCE DESTINATION CODEC (blosc or zstd)."""

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
        metadata = {
            "shape": list(array.shape),
            "data_type": array.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                BLOSC if codec == "blosc" else ZSTD,
            ],
        }
        kvstore = {"driver": "file", "path": f"{destination}/{file.parent.name}", "file_io_sync": False}
        copy = tensorstore.open(
            {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata}, create=True, context=context
        ).result()
        writes = deque()
        for start in range(0, array.shape[0], chunks[0]):
            writes.append(copy[start : start + chunks[0]].write(array[start : start + chunks[0]].read().result()))
            if len(writes) > 8:
                writes.popleft().result()
        for write in writes:
            write.result()


PEERS = {"zarr-python": with_zarr_python, "xarray": with_xarray, "tensorstore": with_tensorstore}

if __name__ == "__main__":
    PEERS[sys.argv[1]](*sys.argv[2:5])
    print(json.dumps({"peer": sys.argv[1]}))
