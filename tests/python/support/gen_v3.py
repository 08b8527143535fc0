"""Version 3 arrays, written with zarr-python, or edited as JSON where it has no way to ask for a layout."""

import itertools
import json
import struct

import numpy as np
import zarr
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    VLenBytesCodec,
    VLenUTF8Codec,
    ZstdCodec,
)
from zarr.codecs import numcodecs as named

import gen_v2
from gen_values import CHUNKS, SHAPE, objects, typed, weather
from oracle import v2_dtype


def v3(root, name, values, *, chunks=CHUNKS, fill=None, write=slice(None), **options):
    values = np.asarray(values)
    fill = {} if fill is None else {"fill_value": fill}
    array = zarr.create_array(
        str(root / name),
        shape=values.shape,
        chunks=chunks[: values.ndim] or "auto",
        dtype=options.pop("dtype", values.dtype),
        zarr_format=3,
        **fill,
        **{"compressors": None, "filters": None, **options},
    )
    array[write if values.ndim else ...] = values[write] if values.ndim else values
    return array


def v3_codecs(root):
    options = {
        "bytes_little": {"serializer": BytesCodec(endian="little")},
        "bytes_big": {"serializer": BytesCodec(endian="big")},
        "gzip": {"compressors": GzipCodec(level=5)},
        "zstd": {"compressors": ZstdCodec(level=3)},
        "zstd_checksum": {"compressors": ZstdCodec(level=3, checksum=True)},
        "crc32c": {"compressors": [Crc32cCodec()]},
        "zstd_crc32c": {"compressors": [ZstdCodec(level=1), Crc32cCodec()]},
        "transpose": {"filters": [TransposeCodec(order=(1, 0))]},
        "transpose_zstd": {"filters": [TransposeCodec(order=(1, 0))], "compressors": ZstdCodec()},
        "transpose_big": {
            "filters": [TransposeCodec(order=(1, 0))],
            "serializer": BytesCodec(endian="big"),
            "compressors": GzipCodec(),
        },
    }
    for cname, shuffle in itertools.product(
        ("blosclz", "lz4", "lz4hc", "zlib", "zstd"), ("noshuffle", "shuffle", "bitshuffle")
    ):
        options[f"blosc_{cname}_{shuffle}"] = {
            "compressors": BloscCodec(cname=cname, clevel=5, shuffle=shuffle, typesize=4)
        }
    for name, chain in options.items():
        v3(root, name, weather(), **chain)
        v3(
            root,
            f"{name}_3d",
            weather((6, 5, 7), "i2"),
            chunks=(4, 5, 3),
            **{**chain, **({"filters": [TransposeCodec(order=(2, 0, 1))]} if "transpose" in name else {})},
        )


def v3_numcodecs(root):
    f4, f8, i4, bools = weather(), weather(SHAPE, "<f8"), weather(SHAPE, "<i4"), typed("|b1")
    cases = {
        "bz2": (f4, {"compressors": named.BZ2(level=5)}),
        "lz4": (f4, {"compressors": named.LZ4(acceleration=1)}),
        "lzma": (f4, {"compressors": named.LZMA(preset=1)}),
        "zlib": (f4, {"compressors": named.Zlib(level=5)}),
        "shuffle": (i4, {"compressors": [named.Shuffle(elementsize=4), named.Zlib(level=1)]}),
        "blosc": (f4, {"compressors": named.Blosc(cname="zstd", clevel=3, shuffle=2)}),
        "zstd": (f4, {"compressors": named.Zstd(level=3)}),
        "gzip": (f4, {"compressors": named.GZip(level=3)}),
        "delta": (i4, {"filters": [named.Delta(dtype="<i4")]}),
        "scale": (
            f8 / 10,
            {"filters": [named.FixedScaleOffset(offset=0, scale=10, dtype="<f8", astype="<i4")]},
        ),
        "quantize": (f4 / 3, {"filters": [named.Quantize(digits=2, dtype="<f4")]}),
        "bitround": (f4 / 7, {"filters": [named.BitRound(keepbits=6)]}),
        "astype": (f8, {"filters": [named.AsType(encode_dtype="<f4", decode_dtype="<f8")]}),
        "packbits": (bools, {"filters": [named.PackBits()]}),
        "crc32": (f4, {"compressors": [named.CRC32()]}),
        "crc32_end": (f4, {"compressors": [named.CRC32(location="end")]}),
        "crc32c": (f4, {"compressors": [named.CRC32C()]}),
        "adler32": (f4, {"compressors": [named.Adler32()]}),
        "jenkins": (f4, {"compressors": [named.JenkinsLookup3()]}),
        "bitround_big": (
            f4 / 7,
            {"filters": [named.BitRound(keepbits=6)], "serializer": BytesCodec(endian="big")},
        ),
        "fletcher32": (f4, {"compressors": [named.Fletcher32()]}),
    }
    for name, (values, chain) in cases.items():
        v3(root, name, values, **chain)


def v3_types(root):
    for dtype in (
        "bool",
        "i1",
        "i2",
        "i4",
        "i8",
        "u1",
        "u2",
        "u4",
        "u8",
        "f2",
        "f4",
        "f8",
        "c8",
        "c16",
        "M8[ns]",
        "M8[D]",
        "m8[s]",
        "S5",
        "U4",
        "V3",
    ):
        values = typed(dtype)
        for label, chain in (
            ("raw", {}),
            ("blosc", {"compressors": BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle", typesize=4)}),
        ):
            v3(root, f"{dtype.replace('[', '_').replace(']', '')}_{label}", values, **chain)
    v3(
        root,
        "string",
        np.array(["", "a", "Zürich", "日本語", "x" * 300] * 2, dtype=np.dtypes.StringDType()),
        chunks=(3,),
        serializer=VLenUTF8Codec(),
    )
    v3(
        root,
        "string_zstd",
        np.array(["", "a", "naïve"] * 4, dtype=np.dtypes.StringDType()),
        chunks=(5,),
        serializer=VLenUTF8Codec(),
        compressors=ZstdCodec(),
    )
    v3(
        root,
        "bytes",
        objects([b"", b"\x00\xff", b"abc"], (7,)),
        chunks=(3,),
        dtype="variable_length_bytes",
        serializer=VLenBytesCodec(),
        compressors=ZstdCodec(),
    )


def v3_structs(root):
    for name in ("flat", "text", "nested"):
        dtype = v2_dtype(gen_v2.STRUCTS[name])
        values = np.zeros((9,), dtype)
        for field in dtype.names if name == "flat" else ():
            values[field] = weather((9,), dtype[field])
        v3(root, name, values, chunks=(4,), compressors=ZstdCodec())


def v3_sharding(root):
    inner = {
        "zstd": [BytesCodec(), ZstdCodec(level=3)],
        "raw": [BytesCodec()],
        "crc": [BytesCodec(), Crc32cCodec()],
        "big": [BytesCodec(endian="big"), GzipCodec()],
        "blosc": [BytesCodec(), BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle", typesize=4)],
        "transpose": [TransposeCodec(order=(1, 0)), BytesCodec(), ZstdCodec()],
    }
    plain_index, values = [BytesCodec()], weather((23, 17))
    for (name, codecs), location in itertools.product(inner.items(), ("start", "end")):
        v3(
            root,
            f"{name}_{location}",
            values,
            chunks=(12, 8),
            serializer=ShardingCodec(chunk_shape=(4, 4), codecs=codecs, index_location=location),
        )
    v3(
        root,
        "index_without_crc",
        values,
        chunks=(12, 8),
        serializer=ShardingCodec(chunk_shape=(4, 4), codecs=inner["zstd"], index_codecs=plain_index),
    )
    v3(
        root,
        "index_big_endian",
        values,
        chunks=(12, 8),
        serializer=ShardingCodec(
            chunk_shape=(4, 4), codecs=inner["zstd"], index_codecs=[BytesCodec(endian="big"), Crc32cCodec()]
        ),
    )
    nested = ShardingCodec(chunk_shape=(6, 8), codecs=[ShardingCodec(chunk_shape=(3, 4), codecs=inner["zstd"])])
    v3(root, "nested", values, chunks=(12, 8), serializer=nested)
    v3(
        root,
        "compressed_shard",
        values,
        chunks=(12, 8),
        serializer=ShardingCodec(chunk_shape=(4, 4), codecs=inner["raw"]),
        compressors=ZstdCodec(),
    )
    v3(
        root,
        "transposed_shard",
        values,
        chunks=(12, 8),
        filters=[TransposeCodec(order=(1, 0))],
        serializer=ShardingCodec(chunk_shape=(4, 4), codecs=inner["zstd"]),
    )
    v3(
        root,
        "partial",
        values,
        chunks=(12, 8),
        fill=np.float32(-1),
        write=slice(0, 5),
        serializer=ShardingCodec(chunk_shape=(4, 4), codecs=inner["zstd"]),
    )
    v3(
        root,
        "absent_shards",
        values,
        chunks=(6, 8),
        fill=np.float32("nan"),
        write=slice(6, 12),
        serializer=ShardingCodec(chunk_shape=(3, 4), codecs=inner["zstd"]),
    )
    v3(
        root,
        "strings",
        np.array([f"word {i}" * (i % 4) for i in range(20)], dtype=np.dtypes.StringDType()),
        chunks=(8,),
        serializer=ShardingCodec(chunk_shape=(4,), codecs=[VLenUTF8Codec(), ZstdCodec()]),
    )


def v3_layouts(root):
    for name, separator in (("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")):
        v3(
            root,
            f"keys_{name}_{'dot' if separator == '.' else 'slash'}",
            weather((6, 5, 7)),
            chunks=(4, 5, 3),
            compressors=ZstdCodec(),
            chunk_key_encoding={"name": name, "separator": separator},
        )
    v3(root, "scalar", np.float64(2.5))
    v3(root, "scalar_v2_key", np.float64(2.5), chunk_key_encoding={"name": "v2", "separator": "."})
    v3(root, "empty", np.zeros((0, 3), "f4"), chunks=(1, 3))
    v3(
        root,
        "named",
        weather(),
        dimension_names=("y", None),
        attributes={"units": "K", "big": 2**63 + 1, "nested": {"a": [1, None]}},
    )
    v3(
        root,
        "five_dimensions",
        weather((3, 2, 3, 2, 3)),
        chunks=(2, 2, 2, 2, 2),
        compressors=BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=4),
    )


def replace_fill(folder, fill):
    metadata = json.loads((folder / "zarr.json").read_text())
    gen_v2.write_json(folder / "zarr.json", {**metadata, "fill_value": fill})


def v3_fill_values(root):
    half = slice(0, 5)
    for dtype, fill in (
        ("f4", "nan"),
        ("f8", "inf"),
        ("f4", "-inf"),
        ("f8", "-0.0"),
        ("f2", "nan"),
        ("f4", "9.96921e36"),
    ):
        v3(
            root,
            f"{dtype}_{fill.replace('-', 'minus_').replace('.', '_')}",
            weather(SHAPE, dtype),
            fill=np.dtype(dtype).type(fill),
            write=half,
        )
    for dtype, fill in (("i2", -32768), ("u8", 2**64 - 1), ("i8", -(2**63)), ("bool", True), ("c8", 1 + 2j)):
        v3(root, f"{dtype}_fill", typed(dtype), fill=np.dtype(dtype).type(fill), write=half)
    v3(
        root,
        "masked_as_xarray_does",
        weather(),
        fill=np.float32(3),
        write=half,
        dimension_names=("y", "x"),
        attributes={"_FillValue": "AAAAAAAA+H8="},
    )
    v3(root, "payload_f4", weather(), fill=np.float32("nan"), write=half)
    replace_fill(root / "payload_f4", "0x7fc00001")
    payload = np.frombuffer(struct.pack("<91I", *(0x7FC00000 + i for i in range(91))), "<f4").reshape(SHAPE)
    v3(root, "payload_values", payload, compressors=ZstdCodec())
