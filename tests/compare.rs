//! `zkit compare`.

use crate::fixtures::{TOUR, copy_to, fixture, run, zkit};

#[test]
fn a_store_equals_itself() {
    let answer = run(zkit().arg("compare").arg(fixture(TOUR)).arg(fixture(TOUR)));
    assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
}

#[test]
fn a_changed_attribute_is_a_difference_that_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = copy_to("sharded_index_end.zarr", folder.path());
    let file = copy.join("zarr.json");
    let text = std::fs::read_to_string(&file).expect("the fixture has metadata");
    let mut metadata: serde_json::Value =
        serde_json::from_str(&text).expect("the fixture's metadata is JSON");
    metadata["attributes"]["planted"] = 1.into();
    std::fs::write(&file, metadata.to_string()).expect("the copy can be written");
    let answer = run(zkit().arg("compare").arg(fixture("sharded_index_end.zarr")).arg(&copy));
    assert_eq!(answer.code, 1, "{}{}", answer.stdout, answer.stderr);
    assert!(answer.stdout.contains("planted"), "{}", answer.stdout);
}

#[test]
fn an_array_that_only_one_store_has_is_a_difference_that_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = copy_to("cmems_ocean.zarr", folder.path());
    std::fs::remove_dir_all(copy.join("depth")).expect("the copy has this array");
    let answer = run(zkit().arg("compare").arg(fixture("cmems_ocean.zarr")).arg(&copy));
    assert_eq!(answer.code, 1, "{}{}", answer.stdout, answer.stderr);
    assert!(answer.stdout.contains("depth"), "{}", answer.stdout);
}
