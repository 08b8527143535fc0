//! Whole slices: from a command line to what every element of the result is.

use crate::scene::{Prepared, Slice};
use crate::testing::{Held, TestStore, held, read_texts, slice};

/// A store of two latitudes, three longitudes, and batches along `id`; values are id * 100 + latitude * 10 + longitude.
fn batch(ids: &[i64]) -> TestStore {
    let values: Vec<i64> = ids
        .iter()
        .flat_map(|id| (0..2).flat_map(move |lat| (0..3).map(move |lon| id * 100 + lat * 10 + lon)))
        .collect();
    let count = ids.len() as u64;
    TestStore::new()
        .ints("id", &["id"], &[count], ids)
        .floats("lat", &["lat"], &[2], &[60.0, 50.0])
        .attributes("lat", r#"{"units": "degrees_north"}"#)
        .floats("lon", &["lon"], &[3], &[0.0, 120.0, 240.0])
        .attributes("lon", r#"{"units": "degrees_east"}"#)
        .ints("t", &["id", "lat", "lon"], &[count, 2, 3], &values)
        .ints("mask", &["lat", "lon"], &[2, 3], &[1, 0, 1, 0, 1, 0])
}

fn only(prepared: &Prepared) -> &Slice {
    assert_eq!(prepared.slices.len(), 1);
    &prepared.slices[0]
}

/// Returns what an array of the only slice of a command line holds.
fn of(stores: &[&TestStore], line: &str, path: &str) -> Held {
    let prepared = slice(stores, line).unwrap();
    held(&prepared, only(&prepared), path)
}

fn error(stores: &[&TestStore], line: &str) -> String {
    let error = slice(stores, line).err().unwrap_or_else(|| panic!("`{line}` is no error"));
    format!("{}\n{}", error.one_line(), error.hint().unwrap_or_default())
}

#[test]
fn single_values_drop_dimensions_and_leave_scalar_coordinates() {
    let store = batch(&[1, 2]);
    let line = "{0} --sel lat=52 --method nearest --isel lon=-1";
    assert_eq!(of(&[&store], line, "/t"), Held::new(&["id"], &[2], &[112.0, 212.0]));
    assert_eq!(of(&[&store], line, "/lat"), Held::new(&[], &[], &[50.0]));
    assert_eq!(of(&[&store], line, "/lon"), Held::new(&[], &[], &[240.0]));
    assert_eq!(of(&[&store], line, "/mask"), Held::new(&[], &[], &[0.0]));
    let prepared = slice(&[&store], line).unwrap();
    let arrays = &only(&prepared).arrays;
    let coordinates = |path: &str| {
        let array = arrays.iter().find(|array| array.path == path).unwrap();
        array.attributes.get("coordinates").and_then(|json| json.as_str()).map(str::to_owned)
    };
    assert_eq!(coordinates("/t").as_deref(), Some("lat lon"));
    assert_eq!(coordinates("/id"), None);
}

#[test]
fn ranges_and_lists_keep_dimensions_and_order() {
    let store = batch(&[1, 2, 3]);
    let line = "{0} --sel id=3,1 --isel lon=1..";
    let expected = [301.0, 302.0, 311.0, 312.0, 101.0, 102.0, 111.0, 112.0];
    assert_eq!(of(&[&store], line, "/t"), Held::new(&["id", "lat", "lon"], &[2, 2, 2], &expected));
    assert_eq!(of(&[&store], line, "/id"), Held::new(&["id"], &[2], &[3.0, 1.0]));
    assert_eq!(of(&[&store], "{0} --sel lon=-120 --isel id=0", "/t").values, [Some(102.0), Some(112.0)]);
}

#[test]
fn sources_lie_behind_each_other_in_order_of_arguments_or_of_values() {
    let (one, two) = (batch(&[5, 1]), batch(&[3]));
    let line = "{0} {1} --concat id --isel lat=0 --isel lon=0";
    assert_eq!(of(&[&one, &two], line, "/t"), Held::new(&["id"], &[3], &[500.0, 100.0, 300.0]));
    let sorted = format!("{line} --sort");
    assert_eq!(of(&[&one, &two], &sorted, "/t"), Held::new(&["id"], &[3], &[100.0, 300.0, 500.0]));
    assert_eq!(of(&[&one, &two], &sorted, "/id"), Held::new(&["id"], &[3], &[1.0, 3.0, 5.0]));
    assert_eq!(of(&[&one, &two], &sorted, "/mask"), Held::new(&[], &[], &[1.0]));
    let picked = format!("{line} --sel id=3");
    assert_eq!(of(&[&one, &two], &picked, "/t"), Held::new(&[], &[], &[300.0]));
    let across = format!("{line} --sel id=1..3 --sort");
    assert_eq!(of(&[&one, &two], &across, "/t"), Held::new(&["id"], &[2], &[100.0, 300.0]));
}

#[test]
fn several_sources_need_a_dimension_to_lie_along() {
    let (one, two) = (batch(&[1]), batch(&[2]));
    let text = error(&[&one, &two], "{0} {1}");
    assert!(text.contains("--concat id") && !text.contains("lat"), "{text}");
    assert!(error(&[&one, &two], "{0} {1} --concat file").contains("has no dimension `file`"));
}

#[test]
fn duplicates_are_refused_with_their_stores_or_one_is_taken() {
    let (one, two) = (batch(&[1, 2]), batch(&[2, 3]));
    let text = error(&[&one, &two], "{0} {1} --concat id");
    assert!(text.contains("1 value of `id` appear") && text.contains("the same in 1 array"), "{text}");
    let line = "{0} {1} --concat id --duplicates last --isel lat=0 --isel lon=0";
    let prepared = slice(&[&one, &two], line).unwrap();
    assert_eq!(held(&prepared, only(&prepared), "/id").values, [Some(1.0), Some(2.0), Some(3.0)]);
    let attribute = only(&prepared).groups[0].attributes.get("zkit_slice").unwrap().to_serde();
    assert_eq!(attribute["joined"][0]["duplicates"][0]["agree"], true);
    assert_eq!(attribute["joined"][0]["origins"][1]["count"], 2);
    let changed = batch(&[2]).ints("t", &["id", "lat", "lon"], &[1, 2, 3], &[0; 6]);
    let text = error(&[&one, &changed], "{0} {1} --concat id");
    assert!(text.contains("`/t` differs"), "{text}");
}

#[test]
fn arrays_beside_the_joined_dimension_must_hold_the_same() {
    let one = batch(&[1]);
    let other = batch(&[2]).ints("mask", &["lat", "lon"], &[2, 3], &[9; 6]);
    let text = error(&[&one, &other], "{0} {1} --concat id");
    assert!(text.contains("`/mask`") && text.contains("differs between"), "{text}");
    let line = "{0} {1} --concat id --allow coordinates --isel lat=0";
    assert_eq!(of(&[&one, &other], line, "/mask").values, [Some(1.0), Some(0.0), Some(1.0)]);
}

#[test]
fn grids_that_differ_are_named_unless_they_are_joined() {
    let one = batch(&[1]);
    let other = batch(&[2])
        .floats("lat", &["lat"], &[2], &[50.0, 40.0])
        .attributes("lat", r#"{"units": "degrees_north"}"#);
    let text = error(&[&one, &other], "{0} {1} --concat id");
    assert!(text.contains("along `lat`") && text.contains("60 in one place and 50"), "{text}");
    let line = "{0} {1} --concat id --join inner --exclude mask --isel lon=0";
    assert_eq!(of(&[&one, &other], line, "/t"), Held::new(&["id", "lat"], &[2, 1], &[110.0, 200.0]));
    assert_eq!(of(&[&one, &other], line, "/lat"), Held::new(&["lat"], &[1], &[50.0]));
    let line = "{0} {1} --concat id --join outer --exclude mask --isel lon=0";
    let text = error(&[&one, &other], line);
    assert!(text.contains("`/t` (int64)") && text.contains("no fill value that means missing"), "{text}");
    assert_eq!(
        of(&[&one, &other], "{0} {1} --concat id --join outer --include lat --include id", "/lat"),
        Held::new(&["lat"], &[3], &[40.0, 50.0, 60.0])
    );
}

#[test]
fn outer_joins_leave_holes_where_floats_are_missing() {
    let store = |ids: &[i64], lats: &[f64], values: &[f64]| {
        let shape = [ids.len() as u64, lats.len() as u64];
        TestStore::new()
            .ints("id", &["id"], &[shape[0]], ids)
            .floats("lat", &["lat"], &[shape[1]], lats)
            .floats("t", &["id", "lat"], &shape, values)
    };
    let (one, two) = (store(&[1], &[1.0, 2.0], &[11.0, 12.0]), store(&[2], &[2.0, 3.0], &[22.0, 23.0]));
    let nan = f64::NAN;
    let expected = Held::new(&["id", "lat"], &[2, 3], &[11.0, 12.0, nan, nan, 22.0, 23.0]);
    assert_eq!(of(&[&one, &two], "{0} {1} --concat id --join outer", "/t"), expected);
    let alone = store(&[3], &[1.0, 2.0], &[0.0; 2]).floats("u", &["id"], &[1], &[7.0]);
    let line = "{0} {1} --concat id --join outer";
    assert_eq!(of(&[&one, &alone], line, "/u"), Held::new(&["id"], &[2], &[nan, 7.0]));
    let text = error(&[&one, &alone], "{0} {1} --concat id");
    assert!(text.contains("`/u` is in") && text.contains("and not in"), "{text}");
    assert!(slice(&[&one, &alone], "{0} {1} --concat id --join inner").unwrap().slices[0].arrays.len() == 3);
}

#[test]
fn variables_of_other_stores_are_added_where_their_coordinates_agree() {
    let (one, two) = (batch(&[1]), batch(&[2]));
    let wind = |ids: &[i64]| {
        let values: Vec<i64> = ids.iter().map(|id| id * 7).collect();
        TestStore::new().ints("id", &["id"], &[ids.len() as u64], ids).ints(
            "u",
            &["id"],
            &[ids.len() as u64],
            &values,
        )
    };
    let (first, second) = (wind(&[1]), wind(&[2]));
    let stores = [&one, &two, &first, &second];
    let line = "{0} {1} --concat id --merge-with {2} {3}";
    assert_eq!(of(&stores, line, "/u"), Held::new(&["id"], &[2], &[7.0, 14.0]));
    let all = wind(&[2, 1]);
    let text = error(&[&one, &two, &all], "{0} {1} --concat id --merge-with {2}");
    assert!(text.contains("along `id`"), "{text}");
    let line = "{0} {1} --concat id --sort --merge-with {2}";
    assert_eq!(of(&[&one, &two, &all], line, "/u"), Held::new(&["id"], &[2], &[7.0, 14.0]));
    let more = wind(&[2, 9]);
    let line = "{0} {1} --concat id --join inner --merge-with {2}";
    assert_eq!(of(&[&one, &two, &more], line, "/u"), Held::new(&["id"], &[1], &[14.0]));
    assert_eq!(of(&[&one, &two, &more], line, "/t").shape, [1, 2, 3]);
    let rival = wind(&[1, 2]).ints("t", &["id"], &[2], &[1, 2]);
    let text = error(&[&one, &two, &rival], "{0} {1} --concat id --merge-with {2}");
    assert!(text.contains("`/t`"), "{text}");
}

#[test]
fn points_lie_along_one_dimension_or_in_stores_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("points.csv");
    std::fs::write(&file, "name,latitude,longitude\nKew,60,-120\nOslo,50,0\nOslo2,50,0\n").unwrap();
    let store = batch(&[1, 2]);
    let line = format!("{{0}} --points {}", file.display());
    let expected = [102.0, 110.0, 110.0, 202.0, 210.0, 210.0];
    assert_eq!(of(&[&store], &line, "/t"), Held::new(&["id", "point"], &[2, 3], &expected));
    assert_eq!(of(&[&store], &line, "/lat"), Held::new(&["point"], &[3], &[60.0, 50.0, 50.0]));
    assert_eq!(of(&[&store], &line, "/mask"), Held::new(&["point"], &[3], &[1.0, 0.0, 0.0]));
    let prepared = slice(&[&store], &line).unwrap();
    let names = only(&prepared).arrays.iter().find(|array| array.path == "/point").unwrap();
    assert_eq!(read_texts(&prepared.literals, &names.gathered.parts[0].array), ["Kew", "Oslo", "Oslo2"]);
    let split = slice(&[&store], &format!("{line} --split {{name}}.zarr")).unwrap();
    let stores: Vec<&str> = split.slices.iter().filter_map(|slice| slice.name.as_deref()).collect();
    assert_eq!(stores, ["Kew.zarr", "Oslo.zarr", "Oslo2.zarr"]);
    assert_eq!(held(&split, &split.slices[1], "/t"), Held::new(&["id"], &[2], &[110.0, 210.0]));
}

#[test]
fn points_may_lie_in_several_sources() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("track.csv");
    std::fs::write(&file, "id,lat\n2,50\n1,60\n2,60\n").unwrap();
    let (one, two) = (batch(&[1]), batch(&[2]));
    let line = format!("{{0}} {{1}} --concat id --isel lon=1 --points {}", file.display());
    assert_eq!(of(&[&one, &two], &line, "/t"), Held::new(&["point"], &[3], &[211.0, 101.0, 201.0]));
    assert_eq!(of(&[&one, &two], &line, "/id"), Held::new(&["point"], &[3], &[2.0, 1.0, 2.0]));
}

#[test]
fn times_of_other_units_get_units_that_hold_all_of_them() {
    let store = |units: &str, times: &[i64], bounds: &[i64]| {
        let units = format!(r#"{{"units": "{units}", "bounds": "time_bnds"}}"#);
        TestStore::new()
            .ints("time", &["time"], &[times.len() as u64], times)
            .attributes("time", &units)
            .ints("time_bnds", &["time", "nv"], &[times.len() as u64, 2], bounds)
    };
    let hours = store("hours since 2000-01-01", &[0, 24], &[0, 24, 24, 48]);
    let days = store("days since 2000-01-03", &[0, 1], &[0, 1, 1, 2]);
    let line = "{0} {1} --concat time";
    assert_eq!(of(&[&hours, &days], line, "/time"), Held::new(&["time"], &[4], &[0.0, 24.0, 48.0, 72.0]));
    let expected = [0.0, 24.0, 24.0, 48.0, 48.0, 72.0, 72.0, 96.0];
    assert_eq!(of(&[&hours, &days], line, "/time_bnds"), Held::new(&["time", "nv"], &[4, 2], &expected));
    let finer = store("hours since 2000-01-01", &[5], &[5, 6]);
    let held = of(&[&days, &finer], line, "/time");
    assert_eq!(held, Held::new(&["time"], &[3], &[0.0, 24.0, -43.0]), "hours since 2000-01-03");
    let expected = [0.0, 24.0, 24.0, 48.0, -43.0, -42.0];
    assert_eq!(of(&[&days, &finer], line, "/time_bnds"), Held::new(&["time", "nv"], &[3, 2], &expected));
    let prepared = slice(&[&days, &finer], line).unwrap();
    let time = only(&prepared).arrays.iter().find(|array| array.path == "/time").unwrap();
    let units = time.attributes.get("units").and_then(|units| units.as_str());
    assert_eq!(units, Some("hours since 2000-01-03"));
    let early = store("days since 0001-01-01", &[1], &[1, 2]);
    let finest = store("nanoseconds since 2000-01-01", &[1], &[1, 2]);
    let text = error(&[&early, &finest], line);
    assert!(text.contains("2000-01-01T00:00:00.000000001 has no exact form"), "{text}");
    let picked = format!("{line} --sel time=2000-01-02..2000-01-03");
    assert_eq!(of(&[&hours, &days], &picked, "/time").values, [Some(24.0), Some(48.0)]);
}

#[test]
fn types_that_drift_are_converted_where_it_is_meant() {
    let wide = batch(&[1]);
    let narrow = batch(&[2]).narrow("id", &["id"], &[1], &[2]);
    let text = error(&[&wide, &narrow], "{0} {1} --concat id");
    assert!(text.contains("the type int64") && text.contains("int32"), "{text}");
    let line = "{0} {1} --concat id --allow dtype";
    assert_eq!(of(&[&wide, &narrow], line, "/id"), Held::new(&["id"], &[2], &[1.0, 2.0]));
}

#[test]
fn groups_take_part_where_their_dimensions_are_named_alike() {
    let store = batch(&[1, 2]).group("deep").ints("deep/v", &["id"], &[2], &[8, 9]);
    let line = "{0} --sel id=2";
    assert_eq!(of(&[&store], line, "/deep/v"), Held::new(&[], &[], &[9.0]));
    let prepared = slice(&[&store], line).unwrap();
    let groups: Vec<&str> = only(&prepared).groups.iter().map(|group| group.path.as_str()).collect();
    assert_eq!(groups, ["/", "/deep"]);
}

#[test]
fn arrays_without_names_of_dimensions_are_taken_by_number() {
    let store = TestStore::new().ints("a", &[], &[2, 2], &[1, 2, 3, 4]);
    assert_eq!(of(&[&store], "{0} --isel dim_0=1", "/a"), Held::new(&["dim_1"], &[2], &[3.0, 4.0]));
    let text = error(&[&store], "{0} --sel dim_0=1");
    assert!(text.contains("has no coordinate") && text.contains("--isel dim_0=0"), "{text}");
}
