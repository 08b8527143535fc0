"""Writes what cftime, pandas and xarray make of times and selections: `crates/zkit-core/tests/golden/*.json`.

Run it with the environment of these tests: `python tests/python/gen_coordinates.py`. The files are kept, and name the
versions that wrote them; `crates/zkit-core/tests/coordinates.rs` compares zkit with them.
"""

import fractions
import json
import pathlib
import random

import cftime
import numpy as np
import pandas as pd
import xarray as xr

GOLDEN = pathlib.Path(__file__).parents[2] / "crates/zkit-core/tests/golden"
VERSIONS = {"cftime": cftime.__version__, "pandas": pd.__version__, "xarray": xr.__version__}
CALENDARS = [
    "standard",
    "gregorian",
    "proleptic_gregorian",
    "julian",
    "noleap",
    "365_day",
    "all_leap",
    "366_day",
    "360_day",
]


def iso(date: cftime.datetime) -> str:
    """The shortest exact ISO form."""
    text = f"{'-' if date.year < 0 else ''}{abs(date.year):04}-{date.month:02}-{date.day:02}"
    if (date.hour, date.minute, date.second, date.microsecond) == (0, 0, 0, 0):
        return text
    text += f"T{date.hour:02}:{date.minute:02}"
    if (date.second, date.microsecond) == (0, 0):
        return text
    text += f":{date.second:02}"
    return text if date.microsecond == 0 else f"{text}.{date.microsecond:06}".rstrip("0")


def decoded(value, units: str, calendar: str):
    try:
        return iso(cftime.num2date(value, units, calendar))
    except (ValueError, OverflowError):
        return None


MICROSECONDS = {"days": 86_400_000_000, "d": 86_400_000_000, "hours": 3_600_000_000, "hrs": 3_600_000_000}
MICROSECONDS |= {"minutes": 60_000_000, "seconds": 1_000_000, "milliseconds": 1000, "msec": 1000, "microseconds": 1}


def near_tie(value: float, unit: str) -> bool:
    """Whether rounding to microseconds hangs on digits that cftime's long doubles do not hold."""
    return abs(fractions.Fraction(value) * MICROSECONDS[unit] % 1 - fractions.Fraction(1, 2)) < fractions.Fraction(
        1, 100
    )


def calendar_cases(rng: random.Random) -> list[dict]:
    references = [
        "1970-01-01",
        "1850-01-01 00:00:00",
        "2000-1-1 12:00",
        "1900-01-01T06:30:15",
        "2000-01-01 00:00:00 +01:00",
        "2000-01-01 00:00:00 -0530",
        "1582-10-04",
        "1582-10-15",
        "0001-01-01",
        "1-1-1 0:0:0.0",
        "1999-12-31 23:59:59.5",
        "2000-02-28 00:00 UTC",
    ]
    spans = {
        "days": 800_000,
        "hours": 20_000_000,
        "minutes": 1_000_000_000,
        "seconds": 60_000_000_000,
        "milliseconds": 10**13,
        "microseconds": 10**16,
        "hrs": 100_000,
        "d": 100_000,
        "msec": 10**9,
    }
    cases = []
    for calendar in CALENDARS:
        for unit, span in spans.items():
            for reference in rng.sample(references, 4):
                units = f"{unit} since {reference}"
                whole = [0, 1, -1, 59, 60, 365, *(rng.randint(-span, span) for _ in range(6))]
                scale = [1, 10, 1000, span // 10, span]
                parts = [rng.uniform(-1, 1) * rng.choice(scale) for _ in range(6)]
                parts += [k / 24 for k in (1, 7, 13)] + [1000 + 1 / 3, 0.1, 43829.520833333336]
                parts += [float(np.float32(rng.uniform(0, span))) for _ in range(3)]
                # xarray keeps the nanoseconds of these, as zkit does; cftime has none
                parts = [] if unit == "microseconds" else parts
                parts = [value for value in parts if not near_tie(value, unit)]
                cases.append(
                    {
                        "units": units,
                        "calendar": calendar,
                        "whole": [[value, decoded(np.int64(value), units, calendar)] for value in whole],
                        "floats": [[value, decoded(np.float64(value), units, calendar)] for value in parts],
                    }
                )
    for calendar, units in [("360_day", "months since 2000-01-01"), ("noleap", "common_years since 1999-03-01")]:
        whole = [[value, decoded(np.int64(value), units, calendar)] for value in (-7, 0, 1, 13)]
        cases.append({"units": units, "calendar": calendar, "whole": whole, "floats": []})
    return cases


def refusals() -> list[dict]:
    cases = []
    for units in [
        "months since 2000-01-01",
        "years since 2000-01-01",
        "common_years since 2000-01-01",
        "weeks since 2000-01-01",
        "fortnights since 2000-01-01",
        "days since 2000-02-30",
        "days since 2001-02-29",
        "days since 2000-01-31",
        "days since 1582-10-10",
        "days since 0000-01-01",
        "days after 2000-01-01",
        "days",
        "days since",
        "days since the flood",
    ]:
        for calendar in CALENDARS:
            refused = decoded(0, units, calendar) is None
            cases.append({"units": units, "calendar": calendar, "refused": refused})
    return cases


def positions(array: xr.DataArray, indexer, method, tolerance):
    options = {"method": method} if method else {}
    if tolerance is not None:
        options["tolerance"] = tolerance
    index = array.indexes["x"]
    try:
        if isinstance(index, pd.DatetimeIndex) and isinstance(indexer, slice) and not index.is_monotonic_increasing:
            # pandas refuses ranges of times that do not rise: the judge is the same range of them in order
            return sorted(array.sortby("x").sel(x=indexer).values.tolist()) or None
        found = array.sel(x=indexer, **options)
    except (KeyError, ValueError, TypeError, pd.errors.InvalidIndexError):
        return None
    # nothing found is an error here
    return np.atleast_1d(found.values).tolist() or None


def selection(values, kind: str, asks: list) -> dict:
    array = xr.DataArray(np.arange(len(values)), dims="x", coords={"x": values})
    cases = []
    for text, indexer, method, tolerance, shown in asks:
        cases.append(
            {
                "ask": text,
                "method": method,
                "tolerance": shown,
                "positions": positions(array, indexer, method, tolerance),
            }
        )
    stored = [int(v) for v in values.astype("datetime64[ns]").astype("int64")] if kind == "times" else values.tolist()
    return {"kind": kind, "values": stored, "cases": cases}


def number_asks(rng: random.Random, values: np.ndarray, falling: bool) -> list:
    low, high = float(values.min()), float(values.max())
    asks = []
    whole = values.dtype.kind == "i"
    for _ in range(30):
        near = float(rng.choice(values.tolist()))
        ask = rng.choice([near, near + rng.choice([0.5, -0.5, 0.25]), rng.uniform(low - 5, high + 5)])
        ask = round(ask) if whole and rng.random() < 0.7 else round(ask, 4)
        for method in (None, "nearest", "pad", "backfill"):
            asks.append((repr(ask), ask, method, None, None))
        tolerance = round(rng.uniform(0, 2), 3)
        asks.append((repr(ask), ask, "nearest", tolerance, repr(tolerance)))
        other = round(rng.uniform(low - 5, high + 5), 2)
        first, last = sorted([ask, other], reverse=falling)
        asks.append((f"{first!r}..{last!r}", slice(first, last), None, None, None))
        asks.append(
            (
                f"..{ask!r}" if not falling else f"{ask!r}..",
                slice(None, ask) if not falling else slice(ask, None),
                None,
                None,
                None,
            )
        )
    picks = [float(v) if not whole else int(v) for v in rng.sample(values.tolist(), 3)]
    asks.append((",".join(map(repr, picks)), picks, None, None, None))
    return asks


def time_asks(rng: random.Random, index: pd.DatetimeIndex) -> list:
    forms = ["%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
    asks = []
    for _ in range(30):
        moment = rng.choice(index.tolist()) + rng.choice([pd.Timedelta(0), pd.Timedelta("7h"), pd.Timedelta("40D")])
        for form in forms:
            text = moment.strftime(form)
            for method in (None, "nearest", "pad", "backfill"):
                asks.append((text, text, method, None, None))
        exact = moment.strftime(forms[-1])
        asks.append((exact, exact, "nearest", pd.Timedelta("6h"), "6h"))
        other = rng.choice(index.tolist())
        # times are asked from below whatever their order
        first, last = sorted([moment, other])
        form = rng.choice(forms)
        a, b = first.strftime(form), last.strftime(form)
        asks.append((f"{a}..{b}", slice(a, b), None, None, None))
        asks.append((f"{a}..", slice(a, None), None, None, None))
        asks.append((f"..{b}", slice(None, b), None, None, None))
    return asks


def selections(rng: random.Random) -> list[dict]:
    cases = []
    for falling in (False, True):
        turn = slice(None, None, -1) if falling else slice(None)
        numbers = {
            "ints": np.arange(0, 60, 3)[turn],
            "floats": np.arange(-10, 10, 0.5)[turn],
            "singles": np.linspace(48, 54, 13, dtype="float32")[turn],
            "uneven": np.array([1.0, 2, 5, 10, 50, 100, 200, 500])[turn],
        }
        for name, values in numbers.items():
            kind = "floats" if name == "uneven" else name
            cases.append(selection(values, kind, number_asks(rng, values, falling)))
        for index in (
            pd.date_range("2019-11-20", periods=60, freq="D"),
            pd.date_range("2019-11-20", periods=120, freq="6h"),
            pd.date_range("2018-01-31", periods=30, freq="ME"),
        ):
            index = index[turn]
            cases.append(selection(index.values, "times", time_asks(rng, index)))
        names = np.array(["alpha", "beta", "delta", "gamma", "omega"], dtype=object)[turn]
        ends = ("delta", "beta") if falling else ("beta", "delta")
        asks = [(text, text, None, None, None) for text in ("beta", "omega", "Beta", "zeta", "")]
        asks.append(("..".join(ends), slice(*ends), None, None, None))
        cases.append(selection(names, "texts", asks))
    # not in order, and with repeated values
    shuffled = np.array([3, 1, 4, 15, 9, 2, 6])
    asks = [(repr(ask), ask, None, None, None) for ask in (4, 5)]
    asks += [("5", 5, method, None, None) for method in ("pad", "backfill")]
    asks += [("1..9", slice(1, 9), None, None, None), ("1..5", slice(1, 5), None, None, None)]
    cases.append(selection(shuffled, "ints", asks))
    days = pd.DatetimeIndex(["2020-01-05", "2020-01-01", "2020-02-03", "2020-01-20", "2020-03-01"])
    asks = [("2020-01..2020-02", slice("2020-01", "2020-02"), None, None, None)]
    asks += [(text, text, None, None, None) for text in ("2020-01", "2020-02-03", "2020-01-02")]
    cases.append(selection(days.values, "times", asks))
    repeated = np.array([1, 2, 2, 3, 5])
    asks = [(repr(ask), ask, None, None, None) for ask in (1, 2, 4)]
    asks += [("2..3", slice(2, 3), None, None, None), ("..2", slice(None, 2), None, None, None)]
    asks.append(("2", 2, "nearest", None, None))
    cases.append(selection(repeated, "ints", asks))
    return cases


def main() -> None:
    rng = random.Random(20_260_101)
    GOLDEN.mkdir(parents=True, exist_ok=True)
    files = {
        "calendar.json": {"written_by": VERSIONS, "decoded": calendar_cases(rng), "refused": refusals()},
        "select.json": {"written_by": VERSIONS, "coordinates": selections(rng)},
    }
    for name, content in files.items():
        lines = json.dumps(content, separators=(",", ":"))
        (GOLDEN / name).write_text(lines.replace('{"units"', '\n{"units"').replace('{"kind"', '\n{"kind"') + "\n")


if __name__ == "__main__":
    main()
