"""Values of every type, with the awkward ones where a type has them."""

import itertools

import numpy as np

SHAPE, CHUNKS = (13, 7), (5, 4)


def weather(shape=SHAPE, dtype="<f4"):
    """Smooth numbers that every type can hold exactly, so that lossy filters stay comparable."""
    steps = np.arange(np.prod(shape, dtype=int)).reshape(shape) * 37 % 101
    return steps.astype(dtype)


def typed(dtype, shape=SHAPE):
    """Distinct values of a type, with the awkward ones where it has them."""
    dtype, count = np.dtype(dtype), int(np.prod(shape, dtype=int))
    if dtype.kind in "SU":
        words = ["", "a", "Zürich", "naïve", "日本", "0\t1"]
        words = [w if dtype.kind == "U" else w.encode("ascii", "replace").decode() for w in words]
        return np.resize(np.array(words, dtype), count).reshape(shape)
    if dtype.kind in "mM":
        values = np.arange(count, dtype="i8") * 86_400_000
        values[::5] = np.iinfo("i8").min  # NaT
        return values.astype(
            dtype.newbyteorder("=").str.replace("=", "<") if dtype.byteorder == ">" else dtype
        ).reshape(shape)
    if dtype.kind == "b":
        return (np.arange(count) % 3 == 0).reshape(shape)
    if dtype.kind == "f":
        values = weather((count,), dtype) / 4 - 9
        values[:5] = [np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).tiny]
        return values.astype(dtype).reshape(shape)
    if dtype.kind == "c":
        return (weather((count,)) + 1j * weather((count,))[::-1]).astype(dtype).reshape(shape)
    if dtype.kind in "iu":
        values = weather((count,), dtype)
        values[:2] = [np.iinfo(dtype).min, np.iinfo(dtype).max]
        return values.reshape(shape)
    raw = np.frombuffer((np.arange(count * dtype.itemsize) * 7 % 251).astype("u1").tobytes(), dtype)
    return raw.reshape(shape)


def objects(elements, shape=SHAPE):
    values = np.empty(int(np.prod(shape, dtype=int)), object)
    for i, element in zip(range(values.size), itertools.cycle(elements), strict=False):
        values[i] = element
    return values.reshape(shape)
