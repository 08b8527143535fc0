"""Writes stores that span what Zarr can say: every codec, data type, filter, order, separator and fill value.

python gen_stores.py FOLDER
"""

import pathlib
import sys
import warnings

import numpy as np
import zarr

import gen_v2
import gen_v3
from gen_values import weather

warnings.filterwarnings("ignore")


def packed_dataset(root):
    """A dataset as xarray packs one: scale, offset, masks, times, a group below, consolidated."""
    import xarray

    time = np.arange("2020-01-01", "2020-01-08", dtype="M8[D]").astype("M8[ns]")
    temperature = (weather((7, 13, 9), "f8") / 8 + 260).astype("f4")
    temperature[2, 3:5] = np.nan
    data = {
        "t2m": (("time", "latitude", "longitude"), temperature),
        "packed": (("time", "latitude", "longitude"), temperature),
        "flags": (("time",), np.arange(7, dtype="i1")),
        "quality": (("latitude", "longitude"), weather((13, 9), "i4")),
        "station": (("time",), np.array(list("abcdefg"), object)),
        "lead": (("time",), np.arange(7).astype("m8[h]").astype("m8[ns]")),
    }
    coordinates = {"time": time, "latitude": np.linspace(60, 48, 13), "longitude": np.linspace(-5, 3, 9)}
    dataset = xarray.Dataset(
        data, coordinates, {"Conventions": "CF-1.11", "nested": {"a": [1, 2.5, None]}, "title": "naïve"}
    )
    encoding = {
        "packed": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768},
        "quality": {"_FillValue": 7},
        "t2m": {"chunks": (3, 8, 9)},
    }
    version = 3 if "v3" in root.name else 2
    dataset.to_zarr(root, mode="w", zarr_format=version, consolidated=True, encoding=encoding)
    dataset[["t2m", "flags"]].to_zarr(
        root, group="ensemble/member_1", mode="a", zarr_format=version, consolidated=False
    )
    zarr.consolidate_metadata(str(root), zarr_format=version)


MODULES = {"v2": gen_v2, "v3": gen_v3}
FAMILIES = {
    name: write
    for version, module in MODULES.items()
    for name, write in vars(module).items()
    if name.startswith(f"{version}_") and name != "v2_dtype"
} | {"v2_weather": packed_dataset, "v3_weather": packed_dataset}


def write_all(folder):
    """Writes every family as one store each; returns {family: path}."""
    stores = {}
    for name, write in FAMILIES.items():
        root = stores[name] = pathlib.Path(folder) / f"{name}.zarr"
        if name.startswith("v2"):
            gen_v2.group(root, {"title": name})
        else:
            zarr.create_group(str(root), zarr_format=3, attributes={"title": name})
        write(root)
    return stores


if __name__ == "__main__":
    for name, path in write_all(sys.argv[1]).items():
        print(f"{name}: {path}")
