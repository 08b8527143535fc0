//! `zkit recompress`.

use std::path::Path;

use crate::fixtures::{TOUR, arrays, copy_to, fixture, json, readable, run, zkit};

/// What sits in a folder, sorted.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder can be listed");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_copy_has_the_digests_of_its_source_or_is_refused_and_leaves_nothing() {
    for (name, _) in readable(true) {
        for format in ["keep", "2", "3"] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let copy = folder.path().join("copy.zarr");
            let answer =
                run(zkit().arg("recompress").arg(fixture(&name)).arg(&copy).args(["--zarr-format", format]));
            if answer.code == 0 {
                let digests = |store: &Path| {
                    let arrays = arrays(&json(&["digest"], store));
                    arrays
                        .into_iter()
                        .map(|(path, array)| (path, array["sha256"].clone()))
                        .collect::<Vec<_>>()
                };
                assert_eq!(digests(&copy), digests(&fixture(&name)), "{name} to {format}");
                assert_eq!(names_in(folder.path()), ["copy.zarr"], "{name} to {format}");
            } else {
                assert!(
                    [2, 3].contains(&answer.code) && format != "keep",
                    "{name} to {format}: {}",
                    answer.stderr
                );
                assert!(names_in(folder.path()).is_empty(), "{name} to {format}");
            }
        }
    }
}

#[test]
fn refuses_to_overwrite_an_existing_destination() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("copy.zarr");
    std::fs::create_dir(&copy).expect("a temporary folder can be written");
    let answer = run(zkit().arg("recompress").arg(fixture(TOUR)).arg(&copy));
    assert!([2, 3].contains(&answer.code), "exit {}: {}", answer.code, answer.stderr);
    assert!(answer.stderr.contains("hint:"), "{}", answer.stderr);
    assert!(names_in(&copy).is_empty());
}

#[test]
fn overwrites_stores_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let precious = folder.path().join("home");
    std::fs::create_dir(&precious).expect("a temporary folder can be written");
    std::fs::write(precious.join("letter"), "x").expect("a temporary folder can be written");
    let overwrite =
        || run(zkit().arg("recompress").arg(fixture(TOUR)).arg(&precious).args(["--overwrite", "--yes"]));
    let answer = overwrite();
    assert_eq!(answer.code, 3, "{}", answer.stderr);
    assert!(answer.stderr.contains("no Zarr store"), "{}", answer.stderr);
    assert_eq!(names_in(&precious), ["letter"]);
    std::fs::write(precious.join(".zgroup"), "{}").expect("a temporary folder can be written");
    let answer = overwrite();
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(!names_in(&precious).contains(&"letter".to_owned()));
    assert_eq!(names_in(folder.path()), ["home"]);
}

#[test]
fn a_codec_that_fits_no_array_is_a_usage_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("copy.zarr");
    for (format, codec) in [("2", r#"{"id":"nope"}"#), ("2", r#"{"name":"zstd"}"#), ("3", r#"{"id":"zstd"}"#)]
    {
        let options = ["--zarr-format", format, "--codec", codec];
        let answer = run(zkit().arg("recompress").arg(fixture("ostia_sst.zarr")).arg(&copy).args(options));
        assert_eq!(answer.code, 2, "{codec}: {}", answer.stderr);
        assert!(names_in(folder.path()).is_empty(), "{codec}");
    }
}

#[test]
fn arguments_that_have_no_effect_are_usage_errors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("copy.zarr");
    let nowhere = folder.path().join("nowhere");
    let file = fixture("manifest.json");
    for (options, words) in [
        (vec!["--codec", "zstd:3", "--prefer", "size"], "--codec zstd:3"),
        (vec!["--codec", "keep", "--prefer", "balanced"], "--prefer balanced"),
        (vec!["--scratch", nowhere.to_str().expect("UTF-8")], "there is no such directory"),
        (vec!["--scratch", file.to_str().expect("UTF-8")], "it is no directory"),
    ] {
        let answer = run(zkit().arg("recompress").arg(fixture("ostia_sst.zarr")).arg(&copy).args(&options));
        assert_eq!(answer.code, 2, "{options:?}: {}", answer.stderr);
        assert!(answer.stderr.contains(words), "{options:?}: {}", answer.stderr);
        assert!(names_in(folder.path()).is_empty(), "{options:?}");
    }
}

#[test]
fn refuses_a_destination_inside_its_source() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = copy_to("lzma.zarr", folder.path());
    let before = names_in(&source);
    let answer = run(zkit().arg("recompress").arg(&source).arg(source.join("copy.zarr")));
    assert!([2, 3].contains(&answer.code), "exit {}: {}", answer.code, answer.stderr);
    assert_eq!(names_in(&source), before);
}

#[test]
fn a_dry_run_writes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answer = run(zkit()
        .arg("recompress")
        .arg(fixture(TOUR))
        .arg(folder.path().join("copy.zarr"))
        .arg("--dry-run"));
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(!answer.stdout.is_empty());
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_corrupt_source_publishes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("copy.zarr");
    let answer = run(zkit().arg("recompress").arg(fixture("faulty_crc32c_bitflip.zarr")).arg(&copy));
    assert!([1, 3].contains(&answer.code), "exit {}: {}", answer.code, answer.stderr);
    assert!(answer.stderr.contains("/air"), "{}", answer.stderr);
    assert!(!copy.exists());
}
