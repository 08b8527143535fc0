//! `zkit audit`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixtures::{TOUR, copy_to, fixture, readable, run, zkit};

/// The findings of a run, at the given depth.
fn findings(path: &Path, arguments: &[&str]) -> (i32, Vec<Value>) {
    let answer = run(zkit().arg("audit").arg(path).args(arguments).args(["--format", "json"]));
    let document = answer.json();
    let list = document["findings"].as_array().expect("`findings` is a list").clone();
    let count = |severity: &str| list.iter().filter(|finding| finding["severity"] == severity).count();
    assert_eq!(document["summary"]["errors"], count("error"), "{document}");
    assert_eq!(document["summary"]["warnings"], count("warning"));
    (answer.code, list)
}

fn rules(findings: &[Value]) -> Vec<&str> {
    let mut rules: Vec<&str> =
        findings.iter().map(|finding| finding["rule"].as_str().expect("a rule is text")).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("the folder can be made");
    fs::write(path, text).expect("the file can be written");
}

/// A store of one array of eight raw chunks along `time`, of which `stored` are there.
fn store(root: &Path, stored: &[u64]) {
    let array = |length: u64, chunk: u64| {
        json!({"zarr_format": 2, "shape": [length], "chunks": [chunk], "dtype": "<f4", "fill_value": 0,
            "compressor": null, "filters": null, "order": "C"})
        .to_string()
    };
    write(&root.join(".zgroup"), r#"{"zarr_format": 2}"#);
    for (name, chunk) in [("time", 16), ("t2m", 2)] {
        write(&root.join(name).join(".zarray"), &array(16, chunk));
        write(&root.join(name).join(".zattrs"), r#"{"_ARRAY_DIMENSIONS": ["time"]}"#);
    }
    let values = |range: std::ops::Range<u16>| -> Vec<u8> {
        range.flat_map(|value| f32::from(value).to_le_bytes()).collect()
    };
    fs::write(root.join("time/0"), values(0..16)).expect("the coordinate can be written");
    for &chunk in stored {
        let first = u16::try_from(2 * chunk).expect("few chunks");
        fs::write(root.join(format!("t2m/{chunk}")), values(first + 1..first + 3))
            .expect("a chunk can be written");
    }
}

#[test]
fn sound_fixtures_have_no_errors_at_any_depth() {
    for (name, _) in readable(true) {
        for depth in ["metadata", "listing", "headers", "sample", "full"] {
            let (code, found) = findings(&fixture(&name), &["--depth", depth]);
            let bad: Vec<&Value> = found.iter().filter(|finding| finding["severity"] == "error").collect();
            assert!(code == 0 && bad.is_empty(), "{name} at {depth}: exit {code}, {bad:?}");
        }
    }
}

#[test]
fn faulty_fixtures_are_found_out() {
    let expected = [
        ("faulty_lfs_pointers.zarr", "headers", "pointer-file"),
        ("faulty_shard_index.zarr", "headers", "bad-shard-index"),
        ("faulty_deep_nesting.zarr", "metadata", "malformed-metadata"),
        ("faulty_zstd_truncated.zarr", "headers", "truncated-chunk"),
        ("faulty_crc32c_bitflip.zarr", "full", "corrupt-chunk"),
        ("faulty_zlib_bomb.zarr", "full", "corrupt-chunk"),
    ];
    for (name, depth, rule) in expected {
        let (code, found) = findings(&fixture(name), &["--depth", depth]);
        assert!(code == 1 || code == 3, "{name}: exit {code}");
        assert!(rules(&found).contains(&rule), "{name}: {:?}", rules(&found));
    }
}

#[test]
fn a_writer_that_stopped_is_found_by_what_is_missing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("a.zarr");
    store(&root, &[0, 1, 2, 3, 4]);
    let (code, found) = findings(&root, &["--depth", "listing"]);
    assert_eq!((code, rules(&found)), (1, vec!["missing-slab"]));
    assert_eq!(found[0]["array"], "/t2m");
    assert_eq!(found[0]["chunks"], json!([[[5], [7]]]));
    assert_eq!(found[0]["grid"], "stored");
}

#[test]
fn each_depth_sees_what_it_can() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("a.zarr");
    store(&root, &[0, 1, 2, 3, 4, 5, 6, 7]);
    fs::write(root.join("t2m/3"), b"12345").expect("a chunk can be cut");
    assert_eq!(findings(&root, &["--depth", "metadata"]).0, 0);
    let (code, found) = findings(&root, &["--depth", "listing"]);
    assert_eq!((code, rules(&found)), (1, vec!["truncated-chunk"]));
    let answer = run(zkit().args(["audit", "--depth", "metadata", "--format", "json"]).arg(&root)).json();
    assert_eq!(answer["stores"][0]["bytes_stored"], Value::Null);
    assert_eq!(answer["complete"], true);
}

#[test]
fn a_folder_is_searched_and_its_stores_are_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["a", "b", "c", "d"] {
        store(&folder.path().join(format!("batch_{name}.zarr")), &[0, 1, 2, 3, 4, 5, 6, 7]);
    }
    let empty = folder.path().join("batch_e.zarr");
    store(&empty, &[]);
    let (code, found) = findings(folder.path(), &["--depth", "listing"]);
    assert_eq!((code, rules(&found)), (1, vec!["metadata-only-array", "undersized-store"]));
    assert!(found.iter().all(|finding| finding["store"] == empty.display().to_string()), "{found:?}");
    let pattern = folder.path().join("batch_[ab].zarr");
    assert_eq!(findings(&pattern, &["--depth", "listing"]).0, 0);
}

#[test]
fn the_policy_a_baseline_and_arguments_decide_what_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("a.zarr");
    store(&root, &[0, 1, 2]);
    let audit = |arguments: &[&str]| {
        run(zkit().current_dir(folder.path()).args(["audit", "a.zarr", "--depth", "listing"]).args(arguments))
            .code
    };
    assert_eq!(audit(&[]), 1);
    assert_eq!(audit(&["--fail-on", "never"]), 0);
    assert_eq!(audit(&["--ignore", "missing-slab"]), 0);
    assert_eq!(audit(&["--select", "unreadable"]), 0);
    assert_eq!(audit(&["--select", "missing-slabs"]), 2);
    assert_eq!(audit(&["--exclude", "t2m"]), 0);
    assert_eq!(audit(&["--include", "nothing"]), 2);
    assert_eq!(audit(&["--write-baseline", "known.json"]), 0);
    assert_eq!(audit(&["--baseline", "known.json"]), 0);
    fs::remove_file(root.join("t2m/0")).expect("a chunk can be removed");
    assert_eq!(audit(&["--baseline", "known.json"]), 1, "other chunks are missing now");
    write(&folder.path().join("zkit.toml"), "[[audit.variable]]\nmatch = \"t2m\"\nsparse = true\n");
    assert_eq!(audit(&[]), 0);
    write(&folder.path().join("zkit.toml"), "[audit]\nsparse = true\n");
    assert_eq!(audit(&[]), 2);
}

#[test]
fn rules_explain_themselves_and_unknown_ones_have_near_ones() {
    let answer = run(zkit().args(["audit", "--explain", "missing-slab"]));
    assert_eq!(answer.code, 0);
    for words in ["missing-slab", "On disk:", "Legitimate:", "What to do:"] {
        assert!(answer.stdout.contains(words), "{}", answer.stdout);
    }
    let answer = run(zkit().args(["audit", "--explain", "missing-slap"]));
    assert_eq!(answer.code, 2);
    assert!(answer.stderr.contains("`missing-slab`"), "{}", answer.stderr);
    let all = run(zkit().args(["audit", "--explain", "all", "--format", "json"])).json();
    assert!(all["rules"].as_array().is_some_and(|rules| rules.len() > 40));
}

#[test]
fn every_rule_has_its_row_in_the_list_of_rules() {
    let all = run(zkit().args(["audit", "--explain", "all", "--format", "json"])).json();
    let mut page = String::from(
        "# The rules of `zkit audit`\n\nWritten by `zkit audit --explain all`; a test holds it to the rules.\n\n",
    );
    page.push_str("| rule | severity | seen from depth | finds |\n|---|---|---|---|\n");
    for rule in all["rules"].as_array().expect("a list") {
        let text = |key: &str| rule[key].as_str().expect("text").to_owned();
        page.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            text("rule"),
            text("severity"),
            text("depth"),
            text("summary")
        ));
    }
    let path = crate::fixtures::root().join("crates/zkit-rules/RULES.md");
    if std::env::var_os("ZKIT_UPDATE_RULES").is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "{} is old: run this test with ZKIT_UPDATE_RULES=1", path.display());
}

#[test]
fn what_is_unreadable_is_not_missing_and_the_run_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path().join("a.zarr");
    store(&root, &[0, 1, 2, 3, 4, 5, 6]);
    std::os::unix::fs::symlink("../pool/7", root.join("t2m/7")).expect("a link can be made");
    let answer = run(zkit().args(["audit", "--depth", "listing", "--format", "json"]).arg(&root));
    assert_eq!(answer.code, 3, "it wins over 1");
    let document = answer.json();
    assert_eq!(document["complete"], false);
    let found = document["findings"].as_array().expect("a list");
    assert_eq!(rules(found), ["dangling-link"]);
}

#[test]
fn a_path_that_is_not_there_is_no_finding() {
    let answer = run(zkit().args(["audit", "no/such/store.zarr"]));
    assert_eq!(answer.code, 3);
    assert!(answer.stderr.contains("no/such/store.zarr"), "{}", answer.stderr);
    assert_eq!(run(zkit().args(["audit", "no/such/*.zarr"])).code, 3);
    assert_eq!(run(zkit().arg("audit")).code, 2);
}

#[test]
fn a_store_that_differs_from_its_source_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = copy_to(TOUR, folder.path());
    let source = fixture(TOUR).display().to_string();
    assert!(
        !rules(&findings(&copy, &["--depth", "metadata", "--against", &source]).1)
            .contains(&"source-mismatch")
    );
    let other = folder.path().join("a.zarr");
    store(&other, &[0]);
    assert!(
        rules(&findings(&other, &["--depth", "metadata", "--against", &source]).1)
            .contains(&"source-mismatch")
    );
}

#[test]
fn a_slice_is_compared_with_what_it_was_cut_from() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, slice) = (folder.path().join("source.zarr"), folder.path().join("slice.zarr"));
    store(&source, &[0, 1, 2, 3, 4, 5, 6, 7]);
    store(&slice, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let against = ["--depth", "full", "--against", &source.display().to_string()];
    let told = |found: &[Value]| -> Vec<String> {
        let own =
            found.iter().filter(|finding| finding["rule"].as_str().unwrap_or("").starts_with("source-"));
        own.map(|finding| finding["message"].as_str().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(told(&findings(&slice, &against).1), Vec::<String>::new());
    // ids the other way round: the same rows, unless they stay where they were
    let ids: Vec<u8> = (0..16u16).rev().flat_map(|id| f32::from(id).to_le_bytes()).collect();
    fs::write(slice.join("time/0"), &ids).expect("the coordinate can be written");
    let rows: Vec<u8> = (0..16u16).rev().flat_map(|row| f32::from(row + 1).to_le_bytes()).collect();
    for (at, chunk) in rows.chunks(8).enumerate() {
        fs::write(slice.join(format!("t2m/{at}")), chunk).expect("a chunk can be written");
    }
    assert_eq!(told(&findings(&slice, &against).1), Vec::<String>::new());
    // one row that is another's, and one id that the source does not have
    fs::write(slice.join("t2m/1"), [3f32, 3.0].map(f32::to_le_bytes).concat())
        .expect("a chunk can be written");
    let last = [&ids[..60], &99f32.to_le_bytes()].concat();
    fs::write(slice.join("time/0"), last).expect("the coordinate can be written");
    let (code, found) = findings(&slice, &against);
    assert_eq!(
        told(&found),
        [
            "2 of 15 values that were compared differ from the source; the first at time 13: 3.0, in the source 14.0; \
             all of them at time 13..12",
            "1 of 16 values do not stand in the source: 99",
        ]
    );
    assert_eq!(code, 1);
}

#[test]
fn zip_files_references_and_repositories_are_audited_for_what_they_are() {
    let (code, found) = findings(&fixture("ome_image.zip"), &["--depth", "full"]);
    assert!(code == 0 && found.iter().all(|finding| finding["severity"] == "info"), "{found:?}");
    assert!(rules(&findings(&fixture("air.kerchunk.json"), &[]).1).contains(&"reference-store"));
    let parquet = findings(&fixture("air.kerchunk.parq"), &["--follow-references", "--depth", "full"]).1;
    let told: Vec<(&str, &str)> = parquet
        .iter()
        .filter_map(|finding| Some((finding["rule"].as_str()?, finding["array"].as_str().unwrap_or(""))))
        .collect();
    assert!(told.contains(&("dead-reference", "/level")), "{parquet:?}");
    assert!(told.contains(&("missing-slab", "/level")), "{parquet:?}");
    for name in ["gauges.icechunk", "gauges_v2.icechunk", "raw.n5"] {
        assert_eq!(findings(&fixture(name), &["--depth", "full"]).0, 0, "{name}");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let zip = fs::read(fixture("ome_image.zip")).expect("the fixture can be read");
    let cut = folder.path().join("cut.zip");
    fs::write(&cut, &zip[..zip.len() / 2]).expect("a zip file can be written");
    assert_eq!(rules(&findings(&cut, &[]).1), ["corrupt-archive"]);
}

#[test]
fn what_of_n5_and_icechunk_is_not_looked_at_is_said() {
    let unseen = |name: &str, depth: &str, what: &str| {
        let answer = run(zkit().arg("audit").arg(fixture(name)).args(["--depth", depth, "--format", "json"]));
        let store = &answer.json()["stores"][0];
        let told = store["not_seen"].as_array().expect("`not_seen` is a list").clone();
        assert!(
            told.iter().any(|one| one.as_str().is_some_and(|one| one.contains(what))),
            "{name}: {told:?}"
        );
        assert!(told.contains(&json!("values")), "{name} at {depth}: {told:?}");
        store["depth"].clone()
    };
    for name in ["gauges.icechunk", "gauges_v2.icechunk"] {
        assert_eq!(unseen(name, "full", "arrays of Icechunk"), "listing");
    }
    assert_eq!(unseen("raw.n5", "full", "datasets of N5: only the headers"), "headers");
    assert_eq!(unseen("raw.n5", "listing", "datasets of N5"), "listing");
}

#[test]
fn values_are_said_to_be_unseen_only_where_a_sample_leaves_chunks_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("a.zarr");
    store(&path, &[0, 1, 2, 3]);
    let not_seen = |sample: &str| {
        let answer = run(zkit().arg("audit").arg(&path).args(["--sample", sample, "--format", "json"]));
        answer.json()["stores"][0]["not_seen"].clone()
    };
    assert_eq!(not_seen("100%"), json!([]));
    assert_eq!(not_seen("1/4"), json!(["values of chunks that were not sampled"]));
}

#[test]
fn stores_of_a_folder_that_cannot_be_reached_are_told() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    store(&folder.path().join("a.zarr"), &[0, 1, 2, 3, 4, 5, 6, 7]);
    std::os::unix::fs::symlink("/nowhere/b.zarr", folder.path().join("b.zarr")).expect("a link can be made");
    write(&folder.path().join("c.zarr.dvc"), "outs:\n- path: c.zarr\n");
    let (code, found) = findings(folder.path(), &[]);
    assert_eq!((code, rules(&found)), (3, vec!["dangling-link", "pointer-file"]));
    let (code, found) = findings(&folder.path().join("b.zarr"), &[]);
    assert_eq!((code, rules(&found)), (3, vec!["dangling-link"]));
}
