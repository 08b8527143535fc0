"""Version 2 arrays, written chunk by chunk with numcodecs: also types and filters that zarr-python no longer writes."""

import itertools
import json
import lzma

import numcodecs
import numpy as np
from numcodecs import blosc

from gen_values import CHUNKS, SHAPE, objects, typed, weather
from oracle import v2_dtype


def write_json(file, document):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1))


def group(folder, attributes=None):
    write_json(folder / ".zgroup", {"zarr_format": 2})
    if attributes:
        write_json(folder / ".zattrs", attributes)
    return folder


def v2(
    folder,
    values,
    *,
    chunks=CHUNKS,
    compressor=None,
    filters=(),
    order="C",
    separator=".",
    fill=0,
    descriptor=None,
    absent=(),
    dims=None,
):
    """Writes one v2 array; `absent` are chunk indices that are left out."""
    values = np.asarray(values)
    descriptor = descriptor or ("|O" if values.dtype == object else values.dtype.str)
    filters = list(filters)
    metadata = {
        "zarr_format": 2,
        "shape": values.shape,
        "chunks": chunks[: values.ndim],
        "dtype": descriptor,
        "order": order,
        "compressor": compressor and compressor.get_config(),
        "filters": [f.get_config() for f in filters] or None,
        "fill_value": fill,
        "dimension_separator": separator,
    }
    write_json(folder / ".zarray", metadata)
    if dims:
        write_json(folder / ".zattrs", {"_ARRAY_DIMENSIONS": dims, "units": "K"})
    for index in np.ndindex(*(-(-s // c) for s, c in zip(values.shape, chunks, strict=False))):
        if index in absent:
            continue
        chunk = blank_chunk(chunks[: values.ndim], values)
        region = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=False))]
        chunk[tuple(slice(0, n) for n in region.shape)] = region
        data = np.asfortranarray(chunk).ravel(order="F") if order == "F" else chunk.ravel()
        for codec in [*filters, *([compressor] if compressor else [])]:
            data = codec.encode(data)
        key = folder / (separator.join(map(str, index)) or "0")
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_bytes(bytes(numcodecs.compat.ensure_bytes(data)))


def blank_chunk(shape, values):
    """What lies beyond an edge: zeros, or empty elements of the same type."""
    chunk = np.zeros(shape, values.dtype)
    if values.dtype == object:
        element = values.flat[0]
        for index in np.ndindex(*shape):
            chunk[index] = element[:0] if isinstance(element, (str, bytes, np.ndarray)) else element
    return chunk


def v2_compressors(root):
    blosc_shuffles = {"none": blosc.NOSHUFFLE, "byte": blosc.SHUFFLE, "bit": blosc.BITSHUFFLE}
    for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for label, shuffle in blosc_shuffles.items():
            for dtype in ("<f4", "<i2", "|u1", "<f8"):
                big = weather((97, 61), dtype)
                v2(
                    root / f"blosc_{cname}_{label}_{dtype[1:]}",
                    big,
                    chunks=(40, 61),
                    compressor=numcodecs.Blosc(cname, 5, shuffle),
                )
    v2(
        root / "blosc_small_blocks",
        weather((300, 70), "<i4"),
        chunks=(300, 70),
        compressor=numcodecs.Blosc("zstd", 3, blosc.BITSHUFFLE, blocksize=4096),
    )
    noise = np.random.default_rng(7).integers(0, 2**31, (60, 50), "i4")
    v2(
        root / "blosc_incompressible",
        noise,
        chunks=(32, 50),
        compressor=numcodecs.Blosc("lz4", 5, blosc.SHUFFLE),
    )
    v2(root / "blosc_level_0", weather(), compressor=numcodecs.Blosc("lz4", 0))
    delta = {"id": lzma.FILTER_DELTA, "dist": 4}
    sized = {"dict_size": 1 << 16, "lc": 2, "lp": 1, "pb": 1}
    lzmas = {
        "xz": {},
        "alone": {"format": lzma.FORMAT_ALONE},
        "crc64": {"check": lzma.CHECK_CRC64},
        "sha256": {"check": lzma.CHECK_SHA256, "preset": 1},
        "raw_delta": {"format": lzma.FORMAT_RAW, "filters": [delta, {"id": lzma.FILTER_LZMA2, "preset": 1}]},
        "raw_sized": {"format": lzma.FORMAT_RAW, "filters": [{"id": lzma.FILTER_LZMA2, **sized}]},
        "raw_lzma1": {"format": lzma.FORMAT_RAW, "filters": [{"id": lzma.FILTER_LZMA1, **sized}]},
    }
    others = {
        "none": None,
        "zstd": numcodecs.Zstd(3),
        "zstd_checksum": numcodecs.Zstd(5, checksum=True),
        "zlib": numcodecs.Zlib(6),
        "gzip": numcodecs.GZip(6),
        "bz2": numcodecs.BZ2(5),
        "lz4": numcodecs.LZ4(),
        "base64": numcodecs.Base64(),
        **{f"lzma_{k}": numcodecs.LZMA(**v) for k, v in lzmas.items()},
    }
    for label, compressor in others.items():
        for dtype in ("<f4", ">i2"):
            v2(
                root / f"{label}_{dtype[1:]}",
                weather((97, 61), dtype),
                chunks=(40, 61),
                compressor=compressor,
            )


def v2_types(root):
    dtypes = [
        "|b1",
        "|i1",
        "<i2",
        "<i4",
        "<i8",
        "|u1",
        "<u2",
        "<u4",
        "<u8",
        "<f2",
        "<f4",
        "<f8",
        "<c8",
        "<c16",
        ">f2",
        ">f4",
        ">f8",
        ">i2",
        ">u8",
        ">c8",
        "<M8[ns]",
        "<M8[D]",
        ">M8[s]",
        "<m8[s]",
        "|S5",
        "<U4",
        ">U4",
    ]
    for dtype, compressor in itertools.product(dtypes, (None, numcodecs.Blosc("zstd", 3, blosc.BITSHUFFLE))):
        name = dtype.replace("<", "le_").replace(">", "be_").replace("|", "").replace("[", "_").replace("]", "")
        values = typed(dtype).astype(dtype)
        fill = (
            ""
            if values.dtype.kind in "SU"
            else None
            if values.dtype.kind in "mM"
            else [0.0, 0.0]
            if values.dtype.kind == "c"
            else 0
        )
        v2(
            root / f"{name}_{'blosc' if compressor else 'raw'}",
            values,
            compressor=compressor,
            fill=False if dtype == "|b1" else fill,
        )


STRUCTS = {
    "flat": [["time", "<i4"], ["value", "<f8"], ["flag", "|u1"]],
    "big_endian": [["a", ">i2"], ["b", ">f4"]],
    "text": [["name", "|S4"], ["label", "<U3"]],
    "nested": [["position", [["x", "<f4"], ["y", "<f4"]]], ["id", "<u2"]],
    "sub_array": [["id", "<i2"], ["vector", "<f4", [3]]],
}


def v2_structs(root):
    for name, descriptor in STRUCTS.items():
        dtype = v2_dtype(descriptor)
        raw = np.zeros(SHAPE, dtype)
        for leaf in dtype.names:
            if name == "text":
                raw[leaf] = typed(dtype[leaf])
            elif dtype[leaf].names:
                for inner in dtype[leaf].names:
                    raw[leaf][inner] = weather(SHAPE, dtype[leaf][inner])
            else:
                raw[leaf] = weather((*SHAPE, *dtype[leaf].shape), dtype[leaf].base)
        v2(root / name, raw, descriptor=descriptor, compressor=numcodecs.Zlib(3), fill=None)


def v2_raw_bytes(root):
    v2(root / "v3_raw", typed("|V3"), compressor=None, fill=None)
    v2(root / "v8_blosc", typed("|V8"), compressor=numcodecs.Blosc("lz4", 5, blosc.SHUFFLE), fill=None)


def v2_strings(root):
    words = ["", "a", "Zürich", "日本語", "tab\tand\nline", "x" * 300]
    for label, compressor in (
        ("raw", None),
        ("zstd", numcodecs.Zstd(3)),
        ("blosc", numcodecs.Blosc("lz4", 5)),
    ):
        v2(
            root / f"utf8_{label}",
            objects(words),
            filters=[numcodecs.VLenUTF8()],
            compressor=compressor,
            fill="",
        )
    v2(
        root / "utf8_filled",
        objects(words),
        filters=[numcodecs.VLenUTF8()],
        compressor=numcodecs.Zstd(1),
        fill="none",
        absent={(0, 0)},
    )
    v2(root / "utf8_null_fill", objects(words), filters=[numcodecs.VLenUTF8()], fill=None, absent={(1, 1)})


def v2_objects(root):
    v2(
        root / "bytes",
        objects([b"", b"\x00\xff", b"abc"]),
        filters=[numcodecs.VLenBytes()],
        compressor=numcodecs.Zstd(3),
        fill="",
    )


def v2_ragged(root):
    ragged = [np.arange(n, dtype="<i4") for n in (1, 4, 0, 7)]
    v2(
        root / "i4",
        objects(ragged),
        filters=[numcodecs.VLenArray("<i4")],
        compressor=numcodecs.Zstd(3),
        fill=None,
    )
    ragged = [np.arange(n, dtype="<f8") / 3 for n in (2, 0, 5)]
    v2(root / "f8", objects(ragged), filters=[numcodecs.VLenArray("<f8")], fill=None)


def v2_texts(root):
    """Python objects that are texts, with nulls where the codec has them."""
    words = ["", "a", None, "Zürich", "日本語", "x" * 300, None]
    for codec in (numcodecs.JSON(), numcodecs.MsgPack()):
        v2(root / codec.codec_id, objects(words), filters=[codec], compressor=numcodecs.Zstd(1), fill=None)
        v2(root / f"{codec.codec_id}_f", objects(words), filters=[codec], order="F", fill=None)
        v2(root / f"{codec.codec_id}_filled", objects(["a", "b"]), filters=[codec], fill="none", absent={(0, 0)})
    labels = ["a", "Zürich", "日本語"]
    for stored in ("u1", "<u2", ">u4"):
        codec = numcodecs.Categorize(labels, object, stored)
        v2(root / f"categorize_{stored[-2:]}", objects([*labels, ""]), filters=[codec], fill="")


def v2_refused(root):
    """Objects whose decoding would run code or guess types: named, never decoded; bytes that are no objects at all."""
    for codec in ("pickle", "json2", "msgpack2"):
        write_json(
            root / codec / ".zarray",
            {
                "zarr_format": 2,
                "shape": [3],
                "chunks": [3],
                "dtype": "|O",
                "order": "C",
                "compressor": None,
                "filters": [{"id": codec}],
                "fill_value": None,
            },
        )
        (root / codec / "0").write_bytes(b"never decoded")
    v2(
        root / "categorize",
        np.array(["a", "b"] * 6 + ["a"], object).astype("<U1"),
        chunks=(5,),
        filters=[numcodecs.Categorize(["a", "b"], "<U1", "u1")],
        fill="",
    )
    v2(root / "sound", weather())


def v2_filters(root):
    f4, i2, i4, bools = weather(), weather(SHAPE, "<i2"), weather(SHAPE, "<i4"), typed("|b1")
    chains = {
        "shuffle_4": (i4, [numcodecs.Shuffle(4)]),
        "shuffle_2": (i2, [numcodecs.Shuffle(2)]),
        "shuffle_8": (weather(SHAPE, "<f8"), [numcodecs.Shuffle(8)]),
        "delta_i2": (i2, [numcodecs.Delta("<i2")]),
        "delta_i4_as_i2": (i4, [numcodecs.Delta("<i4", "<i2")]),
        "delta_f4": (f4, [numcodecs.Delta("<f4")]),
        "delta_be": (weather(SHAPE, ">i4"), [numcodecs.Delta(">i4")]),
        "delta_u1": (weather(SHAPE, "|u1"), [numcodecs.Delta("|u1")]),
        "scale_f8_u1": (
            weather(SHAPE, "<f8") / 10,
            [numcodecs.FixedScaleOffset(offset=1, scale=10, dtype="<f8", astype="|u1")],
        ),
        "scale_f4_i2": (
            f4 / 4,
            [numcodecs.FixedScaleOffset(offset=0.5, scale=100, dtype="<f4", astype="<i2")],
        ),
        "scale_same": (f4, [numcodecs.FixedScaleOffset(offset=273, scale=2, dtype="<f4")]),
        "quantize_f4": (f4 / 3, [numcodecs.Quantize(2, "<f4")]),
        "quantize_f8_f4": (weather(SHAPE, "<f8") / 3, [numcodecs.Quantize(3, "<f8", "<f4")]),
        "astype_f4_f8": (weather(SHAPE, "<f8"), [numcodecs.AsType("<f4", "<f8")]),
        "astype_i2_i4": (i4, [numcodecs.AsType("<i2", "<i4")]),
        "astype_i4_f4": (f4, [numcodecs.AsType("<i4", "<f4")]),
        "astype_f8_f2": (weather(SHAPE, "<f8"), [numcodecs.AsType("<f2", "<f8")]),
        "astype_be_f4": (f4, [numcodecs.AsType(">f4", "<f4")]),
        "packbits": (bools, [numcodecs.PackBits()]),
        "bitround_f4": (f4 / 7, [numcodecs.BitRound(6)]),
        "bitround_f8": (weather(SHAPE, "<f8") / 7, [numcodecs.BitRound(12)]),
        "fletcher32": (f4, [numcodecs.Fletcher32()]),
        "fletcher32_odd": (weather(SHAPE, "|u1"), [numcodecs.Fletcher32()]),
        "jenkins": (f4, [numcodecs.checksum32.JenkinsLookup3()]),
        "jenkins_seeded": (weather(SHAPE, "|u1"), [numcodecs.checksum32.JenkinsLookup3(initval=1_000_003)]),
        **{
            f"{checksum.codec_id}_{location or 'usual'}": (
                f4,
                [checksum(location=location) if location else checksum()],
            )
            for checksum in (numcodecs.Adler32, numcodecs.CRC32, numcodecs.checksum32.CRC32C)
            for location in (None, "start", "end")
        },
        "base64": (i2, [numcodecs.Base64()]),
        "delta_then_shuffle": (i4, [numcodecs.Delta("<i4"), numcodecs.Shuffle(4)]),
        "scale_then_delta": (
            weather(SHAPE, "<f8") / 10,
            [numcodecs.FixedScaleOffset(0, 10, "<f8", "<i4"), numcodecs.Delta("<i4")],
        ),
    }
    for (name, (values, filters)), compressor in itertools.product(
        chains.items(), (None, numcodecs.Zlib(1), numcodecs.Blosc("zstd", 3, blosc.SHUFFLE))
    ):
        label = compressor.codec_id if compressor else "raw"
        v2(
            root / f"{name}_{label}",
            values,
            filters=filters,
            compressor=compressor,
            fill=False if values.dtype.kind == "b" else 0,
        )


def v2_layouts(root):
    for order, separator in itertools.product("CF", "./"):
        label = f"{order}_{'dot' if separator == '.' else 'slash'}"
        v2(
            root / f"plain_{label}",
            weather((6, 5, 7)),
            chunks=(4, 5, 3),
            order=order,
            separator=separator,
            compressor=numcodecs.Zstd(1),
        )
        v2(
            root / f"big_{label}",
            weather((6, 5, 7), ">f4"),
            chunks=(4, 5, 3),
            order=order,
            separator=separator,
            compressor=numcodecs.Blosc("lz4", 5),
        )
        v2(
            root / f"absent_{label}",
            weather(),
            order=order,
            separator=separator,
            fill=-1,
            absent={(0, 1), (2, 1)},
        )
    v2(root / "scalar", np.float32(3.5), chunks=(), compressor=numcodecs.Zstd(1))
    v2(root / "scalar_absent", np.float32(3.5), chunks=(), fill=2.5, absent={()})
    v2(root / "empty", np.zeros((0, 7), "<f4"))
    v2(root / "empty_second", np.zeros((5, 0), "<f4"))
    v2(root / "chunk_beyond_shape", weather((3,), "<i4"), chunks=(10,), compressor=numcodecs.Zlib(1))
    v2(root / "one_element", weather((1, 1)), chunks=(1, 1))
    v2(
        root / "five_dimensions",
        weather((3, 2, 3, 2, 3)),
        chunks=(2, 2, 2, 2, 2),
        compressor=numcodecs.Blosc("zstd", 1, blosc.BITSHUFFLE),
    )
    v2(root / "all_absent", weather(), fill="NaN", absent={(i, j) for i in range(3) for j in range(2)})


def v2_fill_values(root):
    absent = {(0, 0), (1, 1)}
    fills = {
        "null": None,
        "zero": 0,
        "number": -32767.5,
        "nan": "NaN",
        "inf": "Infinity",
        "minus_inf": "-Infinity",
        "minus_zero": -0.0,
    }
    for (name, fill), dtype in itertools.product(fills.items(), ("<f4", "<f8", "<f2", ">f4")):
        v2(
            root / f"{name}_{dtype.replace('<', 'le_').replace('>', 'be_')}",
            weather(SHAPE, dtype),
            fill=fill,
            absent=absent,
            dims=["y", "x"],
        )
    for name, dtype, fill in (
        ("i2", "<i2", -32768),
        ("u8", "<u8", 2**64 - 1),
        ("i8", "<i8", -(2**63)),
        ("u1", "|u1", 255),
        ("bool", "|b1", True),
        ("int_null", "<i4", None),
        ("time", "<M8[ns]", -(2**63)),
        ("time_zero", "<M8[s]", 0),
        ("text", "|S5", "YWJjAAA="),
        ("unicode", "<U4", "abc"),
        ("complex", "<c8", [1.5, "NaN"]),
        ("float_from_integer", "<f8", 7),
    ):
        v2(root / name, typed(dtype), fill=fill, absent=absent, dims=["y", "x"])
