//! Times and selections as cftime, pandas and xarray see them: golden files of `tests/python/gen_coordinates.py`.

#![expect(clippy::unwrap_used, reason = "tests, and what they share")]

use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;
use zkit_core::calendar::{Calendar, TimeUnits};
use zkit_core::cancel::Cancel;
use zkit_core::codec::VariableElements;
use zkit_core::error::ErrorKind;
use zkit_core::event::{Observer, Silent};
use zkit_core::hierarchy::Hierarchy;
use zkit_core::location::StoreUrl;
use zkit_core::read::ReadContext;
use zkit_core::select::{
    Axis, Coordinate, Index, Method, Request, Selection, Values, analyse, is_coordinate, read_coordinate,
};
use zkit_core::store::StoreOptions;

fn golden(name: &str) -> Value {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

#[test]
fn times_decode_as_cftime_decodes_them() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for case in list(&golden("calendar.json")["decoded"]) {
        let (text, calendar) = (case["units"].as_str().unwrap(), case["calendar"].as_str().unwrap());
        let units = match TimeUnits::parse(text, Some(calendar)) {
            Ok(units) => units,
            Err(error) => {
                let expected = list(&case["whole"]).iter().any(|pair| !pair[1].is_null());
                assert!(!expected, "{text} ({calendar}): {error}");
                continue;
            }
        };
        let whole =
            list(&case["whole"]).iter().map(|pair| (units.decode(pair[0].as_i64().unwrap()), &pair[1]));
        let floats = list(&case["floats"])
            .iter()
            .map(|pair| (units.decode_float(pair[0].as_f64().unwrap()), &pair[1]));
        for (position, (found, expected)) in whole.chain(floats).enumerate() {
            // years that Python's timedelta cannot hold
            let Some(expected) = expected.as_str() else { continue };
            compared += 1;
            let found = found.map(|time| time.show(units.calendar()));
            if found.as_deref() != Some(expected) {
                wrong.push(format!("{text} ({calendar}) [{position}]: {found:?}, cftime has {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(compared > 5_000, "{compared}");
}

#[test]
fn units_are_refused_where_cftime_refuses_them() {
    for case in list(&golden("calendar.json")["refused"]) {
        let (text, calendar) = (case["units"].as_str().unwrap(), case["calendar"].as_str().unwrap());
        let refused = TimeUnits::parse(text, Some(calendar)).is_err();
        assert_eq!(Value::Bool(refused), case["refused"], "{text} ({calendar})");
    }
}

fn coordinate(kind: &str, values: &[Value]) -> Coordinate {
    let ints = || values.iter().map(|value| value.as_i64().unwrap());
    let floats = || values.iter().map(|value| value.as_f64().unwrap()).collect();
    let (values, axis) = match kind {
        "ints" => (Values::Ints(ints().collect()), Axis::Other),
        "floats" => (Values::Floats { values: floats(), single: false }, Axis::Other),
        "singles" => (Values::Floats { values: floats(), single: true }, Axis::Other),
        "times" => {
            let values = ints().map(i128::from).collect();
            (Values::Times { values, calendar: Calendar::ProlepticGregorian }, Axis::Time)
        }
        "texts" => {
            let mut texts = VariableElements::default();
            values.iter().for_each(|value| texts.push(value.as_str().unwrap().as_bytes()));
            (Values::Texts(texts), Axis::Other)
        }
        other => unreachable!("{other}"),
    };
    Coordinate::new("/x", values, axis)
}

#[test]
fn selections_are_those_of_xarray() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for case in list(&golden("select.json")["coordinates"]) {
        let coordinate = coordinate(case["kind"].as_str().unwrap(), list(&case["values"]));
        let index = Index::new(&coordinate);
        for ask in list(&case["cases"]) {
            let text = ask["ask"].as_str().unwrap();
            let method = match ask["method"].as_str() {
                None => Method::Exact,
                Some("nearest") => Method::Nearest,
                Some("pad") => Method::Pad,
                Some("backfill") => Method::Backfill,
                Some(other) => unreachable!("{other}"),
            };
            let found = index.find(&Request::parse(text), method, ask["tolerance"].as_str());
            let positions = found.as_ref().ok().map(|selection| Value::from(selection.positions.to_vec()));
            compared += 1;
            if positions.clone().unwrap_or(Value::Null) != ask["positions"] {
                let found =
                    positions.map_or_else(|| found.unwrap_err().to_string(), |found| found.to_string());
                wrong.push(format!(
                    "{} {}..: {text} {method:?} {}: {found}, xarray has {}",
                    case["kind"], case["values"][0], ask["tolerance"], ask["positions"]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    assert!(compared > 2_000, "{compared}");
}

fn floats(name: &str, values: Vec<f64>, axis: Axis) -> Coordinate {
    Coordinate::new(name, Values::Floats { values, single: false }, axis)
}

fn find(coordinate: &Coordinate, ask: &str, method: Method) -> Selection {
    Index::new(coordinate).find(&Request::parse(ask), method, None).unwrap()
}

#[test]
fn longitudes_meet_in_either_form() {
    let east = floats("/lon", (0..1440).map(|at| f64::from(at) * 0.25).collect(), Axis::Longitude);
    let both = floats("/lon", (-180..180).map(f64::from).collect(), Axis::Longitude);
    // asked west of Greenwich, stored from 0 to 360
    let london = find(&east, "-0.5", Method::Exact);
    assert_eq!((london.positions.to_vec(), london.notes.len()), (vec![1438], 1));
    assert_eq!(london.notes[0], "longitude -0.5 is 359.5 in the form that is stored");
    // the nearest one may lie across the seam
    assert_eq!(find(&east, "-0.1", Method::Nearest).found[0].position, 0);
    assert!((find(&east, "-0.1", Method::Nearest).found[0].distance - 0.1).abs() < 1e-9);
    assert_eq!(find(&east, "360", Method::Exact).positions.to_vec(), [0]);
    assert_eq!(find(&both, "180", Method::Exact).positions.to_vec(), [0]);
    assert_eq!(find(&both, "190", Method::Exact).found[0].value, "-170");
    assert_eq!(find(&both, "179.9", Method::Nearest).found[0].value, "-180");
    // ranges run from west to east
    let range = find(&east, "-0.5..0.5", Method::Exact);
    assert_eq!(range.positions.to_vec(), [1438, 1439, 0, 1, 2]);
    assert_eq!(find(&east, "359.5..0.5", Method::Exact).positions.to_vec(), [1438, 1439, 0, 1, 2]);
    assert_eq!(find(&both, "350..355", Method::Exact).positions.to_vec(), (170..=175).collect::<Vec<_>>());
    assert_eq!(find(&both, "179..181", Method::Exact).positions.to_vec(), [359, 0, 1]);
    assert_eq!(find(&both, "0..360", Method::Exact).positions.len(), 360);
    let plain = find(&both, "-10..10", Method::Exact);
    assert_eq!((plain.positions.len(), plain.notes.len()), (21, 0));
    // a coordinate of another kind has no other form
    let other = floats("/x", (0..1440).map(|at| f64::from(at) * 0.25).collect(), Axis::Other);
    assert!(Index::new(&other).find(&Request::parse("-0.5"), Method::Exact, None).is_err());
}

#[test]
fn what_is_not_there_names_the_nearest() {
    let latitude = floats("/latitude", (0..181).map(|at| 90.0 - f64::from(at)).collect(), Axis::Latitude);
    let index = Index::new(&latitude);
    let error = index.find(&Request::parse("51.6"), Method::Exact, None).unwrap_err();
    assert_eq!(error.to_string(), "`/latitude` has no 51.6: the nearest is 52 (at position 38, 0.4 away)");
    assert_eq!(error.kind(), ErrorKind::Absent);
    let error = index.find(&Request::parse("51.6"), Method::Nearest, Some("0.1")).unwrap_err();
    assert!(error.to_string().contains("52 (at position 38) is 0.4 away"), "{error}");
    assert!(index.find(&Request::parse("51.6"), Method::Nearest, Some("0.5")).is_ok());
    let error = index.find(&Request::parse("100..120"), Method::Exact, None).unwrap_err();
    assert!(error.to_string().contains("it holds -90..90"), "{error}");
    for (ask, method) in [("north", Method::Exact), ("50..60", Method::Nearest), (",", Method::Exact)] {
        assert_eq!(
            index.find(&Request::parse(ask), method, None).unwrap_err().kind(),
            ErrorKind::Usage,
            "{ask}"
        );
    }
    let mut names = VariableElements::default();
    ["GB-Lon", "FR-Par"].iter().for_each(|name| names.push(name.as_bytes()));
    let names = Coordinate::new("/station", Values::Texts(names), Axis::Other);
    let error = Index::new(&names).find(&Request::parse("gb-london"), Method::Exact, None).unwrap_err();
    assert!(error.to_string().contains("the nearest is GB-Lon"), "{error}");
    let empty = floats("/x", vec![], Axis::Other);
    assert!(Index::new(&empty).find(&Request::parse("1"), Method::Nearest, None).is_err());
    assert!(Index::new(&empty).find(&Request::parse("1.."), Method::Exact, None).is_err());
    let missing = floats("/x", vec![f64::NAN; 3], Axis::Longitude);
    assert!(Index::new(&missing).find(&Request::parse("1"), Method::Nearest, None).is_err());
}

#[test]
fn durations_and_repeated_values_are_found() {
    let hour = 3_600_000_000_000;
    let steps =
        Coordinate::new("/step", Values::Durations((0..10).map(|at| at * 6 * hour).collect()), Axis::Other);
    assert_eq!(find(&steps, "12h", Method::Exact).positions.to_vec(), [2]);
    assert_eq!(find(&steps, "0.5 d..1d", Method::Exact).positions.to_vec(), [2, 3, 4]);
    let repeated = Coordinate::new("/id", Values::Ints(vec![3, 1, 3]), Axis::Other);
    let found = find(&repeated, "3", Method::Exact);
    assert_eq!((found.positions.to_vec(), found.single), (vec![0, 2], false));
    assert_eq!(find(&repeated, "1,3", Method::Exact).positions.to_vec(), [1, 0, 2]);
    assert!(Index::new(&repeated).find(&Request::parse("4"), Method::Nearest, None).is_err());
}

proptest! {
    #[test]
    fn no_request_panics(ask in "[-+0-9.,eTn ]{0,20}", values in proptest::collection::vec(any::<f64>(), 0..20), longitude in any::<bool>()) {
        let axis = if longitude { Axis::Longitude } else { Axis::Other };
        let as_times = values.iter().map(|value| i128::from(value.to_bits())).collect();
        let times = Coordinate::new("/time", Values::Times { values: as_times, calendar: Calendar::Day360 }, Axis::Time);
        let numbers = floats("/x", values, axis);
        for coordinate in [times, numbers] {
            let index = Index::new(&coordinate);
            for method in [Method::Exact, Method::Nearest, Method::Pad, Method::Backfill] {
                if let Ok(selection) = index.find(&Request::parse(&ask), method, Some("1h")) {
                    prop_assert!(selection.positions.to_vec().iter().all(|&at| at < coordinate.len()));
                }
                let _ = index.find(&Request::parse(&ask), method, None);
            }
            let _ = analyse(&coordinate);
        }
    }
}

/// Writes a v2 array of one dimension without codecs.
fn write_array(
    root: &Path,
    name: &str,
    dtype: &str,
    chunks: u64,
    length: u64,
    attributes: &Value,
    objects: &[&[u8]],
) {
    let folder = root.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let metadata = serde_json::json!({
        "zarr_format": 2, "shape": [length], "chunks": [chunks], "dtype": dtype, "order": "C",
        "fill_value": null, "filters": null, "compressor": null,
    });
    std::fs::write(root.join(".zgroup"), r#"{"zarr_format":2}"#).unwrap();
    std::fs::write(folder.join(".zarray"), metadata.to_string()).unwrap();
    let mut attributes = attributes.clone();
    attributes["_ARRAY_DIMENSIONS"] = serde_json::json!([name]);
    std::fs::write(folder.join(".zattrs"), attributes.to_string()).unwrap();
    for (position, object) in objects.iter().enumerate().filter(|(_, object)| !object.is_empty()) {
        std::fs::write(folder.join(position.to_string()), object).unwrap();
    }
}

fn read(root: &Path, name: &str, limit_bytes: u64) -> zkit_core::error::Result<Coordinate> {
    let hierarchy =
        Hierarchy::open(&root.to_str().unwrap().parse::<StoreUrl>().unwrap(), &StoreOptions::default())
            .unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let (cancel, silent) = (Cancel::default(), Silent::default());
    let context = ReadContext {
        pool: &pool,
        cancel: &cancel,
        meter: silent.meter(),
        in_flight_bytes: ReadContext::IN_FLIGHT_BYTES,
    };
    let node = hierarchy.array(name).unwrap();
    assert!(is_coordinate(node));
    read_coordinate(hierarchy.readable_store().unwrap(), node, limit_bytes, context)
}

fn shown(coordinate: &Coordinate) -> Vec<String> {
    (0..coordinate.len()).map(|at| coordinate.show(at)).collect()
}

#[test]
fn coordinates_of_every_type_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let limit = 1 << 20;
    let longs = |values: &[i64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let none = serde_json::json!({});

    let hours =
        serde_json::json!({"units": "hours since 2000-01-01", "calendar": "noleap", "_FillValue": -1});
    write_array(root, "time", "<i8", 2, 4, &hours, &[&longs(&[0, 24 * 59]), &longs(&[-1, i64::MIN])]);
    let time = read(root, "time", limit).unwrap();
    assert_eq!(shown(&time), ["2000-01-01", "2000-03-01", "NaT", "NaT"]);
    assert_eq!((time.axis, analyse(&time).missing), (Axis::Time, 2));

    write_array(root, "day", "<M8[D]", 3, 3, &none, &[&longs(&[0, 18_000, i64::MIN])]);
    assert_eq!(shown(&read(root, "day", limit).unwrap()), ["1970-01-01", "2019-04-14", "NaT"]);
    write_array(root, "step", ">m8[h]", 2, 2, &none, &[&[0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 24]]);
    assert_eq!(shown(&read(root, "step", limit).unwrap()), ["6 h", "1 d"]);

    let packed = serde_json::json!({"scale_factor": 0.5, "add_offset": 10.0, "units": "degrees_north"});
    write_array(root, "lat", "<i2", 3, 3, &packed, &[&[0, 0, 1, 0, 0xff, 0xff]]);
    let lat = read(root, "lat", limit).unwrap();
    assert_eq!((shown(&lat), lat.axis), (vec!["10".into(), "10.5".into(), "9.5".into()], Axis::Latitude));

    let texts: Vec<u8> = "ab\0\0ß\0\0\0".chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
    write_array(root, "name", "<U4", 2, 2, &none, &[&texts]);
    assert_eq!(shown(&read(root, "name", limit).unwrap()), ["ab", "ß"]);
    write_array(root, "code", "|S3", 2, 2, &none, &[b"ab\0abc"]);
    assert_eq!(shown(&read(root, "code", limit).unwrap()), ["ab", "abc"]);
    write_array(root, "big", "<u8", 1, 1, &none, &[&u64::MAX.to_le_bytes()]);
    assert_eq!(shown(&read(root, "big", limit).unwrap()), [u64::MAX.to_string()]);

    // two absent chunks of two: never written, not four times zero
    write_array(root, "holes", "<i8", 2, 6, &none, &[&longs(&[5, 6]), b"", b""]);
    let holes = read(root, "holes", limit).unwrap();
    assert_eq!((holes.unwritten, analyse(&holes).duplicates.extra), (4, 0));
    // one absent chunk of one element is the zero that it stands for
    write_array(root, "zero", "<i8", 1, 1, &none, &[b""]);
    assert_eq!(shown(&read(root, "zero", limit).unwrap()), ["0"]);

    let broken = serde_json::json!({"units": "months since 2000-01-01"});
    write_array(root, "months", "<i8", 2, 2, &broken, &[&longs(&[0, 1])]);
    assert_eq!(shown(&read(root, "months", limit).unwrap()), ["0", "1"]);
    write_array(root, "huge", "<i8", 1 << 20, 1 << 40, &none, &[]);
    assert_eq!(read(root, "huge", limit).unwrap_err().kind(), ErrorKind::OverBudget);
    write_array(root, "single", "<i1", 1, 1 << 19, &none, &[]);
    assert_eq!(read(root, "single", 1 << 30).unwrap_err().kind(), ErrorKind::OverBudget);
    write_array(root, "wide", "<i8", 1 << 40, 4, &none, &[&longs(&[0])]);
    assert_eq!(read(root, "wide", limit).unwrap_err().kind(), ErrorKind::OverBudget);
    write_array(root, "short", "<i8", 4, 4, &none, &[&longs(&[0])]);
    assert_eq!(read(root, "short", limit).unwrap_err().kind(), ErrorKind::Corrupt);
}
