"""Weather-like maps, the same on every machine: three variables of (time, latitude, longitude), one map a chunk."""

import pathlib
import sys

import numcodecs
import numpy as np
import zarr

LATITUDES, LONGITUDES = 721, 1440
#            name   mean  north-south  weather  noise  decimals
VARIABLES = (
    ("t2m", 250.0, 45.0, 7.0, 0.15, 1),
    ("msl", 101e3, 300.0, 900.0, 15.0, -1),
    ("sst", 273.0, 27.0, 3.0, 0.05, 1),
)


def patterns(random, count=6, slope=1.9):
    """Smooth fields, periodic in longitude, whose amplitudes fall with a power of the wave number."""
    rows = np.fft.fftfreq(2 * LATITUDES)[:, None] * 2 * LATITUDES
    columns = np.fft.rfftfreq(LONGITUDES)[None, :] * LONGITUDES
    wave = np.hypot(rows, columns)
    wave[0, 0] = np.inf
    for _ in range(count):
        phases = random.standard_normal(wave.shape) + 1j * random.standard_normal(wave.shape)
        field = np.fft.irfft2(phases * wave**-slope, s=(2 * LATITUDES, LONGITUDES))[:LATITUDES]
        yield ((field - field.mean()) / field.std()).astype("f4")


def stored(values, mean, data_type):
    """The values in another type: int16 holds tenths around the mean, as packed files do."""
    if data_type == "i2":
        return np.nan_to_num((values - mean) * 10).clip(-32767, 32767).astype("i2")
    return values.astype(data_type)


def write(store, steps, data_type="f4", order="C"):
    """Writes the store and returns its path."""
    random = np.random.default_rng(20240517)
    fields = list(patterns(random))
    weights, speeds = random.standard_normal(len(fields)), random.uniform(-3, 9, len(fields))
    zonal = np.cos(np.deg2rad(np.linspace(90, -90, LATITUDES)))[:, None]
    land = fields[0] > 0.45
    group = zarr.open_group(store, mode="w", zarr_format=2)
    lz4 = numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE)
    axes = {
        "time": np.arange(steps) * 6,
        "latitude": np.linspace(90, -90, LATITUDES, dtype="f4"),
        "longitude": np.arange(LONGITUDES, dtype="f4") / 4,
    }
    for name, values in axes.items():
        axis = group.create_array(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype=values.dtype,
            compressors=lz4,
            attributes={"_ARRAY_DIMENSIONS": [name]},
        )
        axis[...] = values
    arrays = {
        name: group.create_array(
            name,
            shape=(steps, LATITUDES, LONGITUDES),
            chunks=(1, LATITUDES, LONGITUDES),
            dtype=data_type,
            order=order,
            compressors=lz4,
            fill_value=0 if data_type == "i2" else float("nan"),
            attributes={"_ARRAY_DIMENSIONS": list(axes)},
        )
        for name, *_ in VARIABLES
    }
    for step in range(steps):
        weights = 0.93 * weights + 0.37 * random.standard_normal(len(fields))
        moved = [np.roll(f, int(step * s), axis=1) for f, s in zip(fields, speeds, strict=True)]
        for turn, (name, mean, north_south, weather, noise, decimals) in enumerate(VARIABLES):
            anomaly = (
                sum(np.float32(w) * f for w, f in zip(np.roll(weights, turn), moved, strict=True)) / len(fields) ** 0.5
            )
            values = (
                mean
                + north_south * zonal
                + weather * anomaly
                + noise * random.standard_normal(zonal.shape[:1] + (LONGITUDES,), dtype="f4")
            )
            values = np.round(values, decimals).astype("f4")
            if name == "sst":
                values[land] = np.nan
            arrays[name][step] = stored(values, mean, data_type)
    zarr.consolidate_metadata(store, zarr_format=2)
    return pathlib.Path(store)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
