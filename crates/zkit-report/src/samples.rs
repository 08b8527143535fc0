//! Reports for tests: one that looks like real life, and ones whose every text is hostile.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::chart::GridMap;
use crate::finding::{ChunkBox, ChunkGrid, Confidence, Finding, FindingCounts, Severity};
use crate::report::{Occupancy, Report, RuleInfo, StoreSummary, Variable};
use crate::series::{Point, Series};

/// Texts that try to leave the place where they are shown.
pub(crate) const HOSTILE: [&str; 14] = [
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'; DROP TABLE stores; --",
    "a\u{1b}[31mred\u{1b}[2J",
    "line\nbreak\r\n::error::injected",
    "%0A::error::injected",
    "]]><evil/>",
    "&amp;&lt;&#x3c;",
    "{{ 7 * 7 }}{% raw %}",
    "\u{202e}txt.exe\u{2066}",
    "nul\u{0}\u{9b}\u{7f}\u{fffe}\u{ffff}",
    "javascript:alert(1)",
    "<!-- --><![CDATA[",
    "//evil.example/x.js",
];

/// Returns an error with high confidence of an array of `/data/batch_03.zarr`, of no chunks.
pub(crate) fn finding(rule: &'static str) -> Finding {
    Finding {
        rule,
        severity: Severity::Error,
        confidence: Confidence::High,
        store: "/data/cache/batch_03.zarr".into(),
        array: Some("/t2m".into()),
        chunks: None,
        grid: ChunkGrid::Stored,
        message: "it is not as it should be".into(),
        evidence: Map::new(),
        remedy: None,
    }
}

const RULES: [RuleInfo; 5] = [
    RuleInfo {
        id: "metadata-only-array",
        severity: Severity::Error,
        summary: "an array has metadata and not one chunk",
        explain: "A job wrote the metadata and died before the data.\n\nReaders see fill values, and no error.",
    },
    RuleInfo {
        id: "missing-slab",
        severity: Severity::Error,
        summary: "absent chunks form a run or a slab, as an interrupted writer leaves them",
        explain: "Chunks are written in order.\n\nA writer that stops leaves the rest absent.",
    },
    RuleInfo {
        id: "nan-slab",
        severity: Severity::Warning,
        summary: "whole steps are NaN while their neighbours are not",
        explain: "",
    },
    RuleInfo {
        id: "absent-chunks",
        severity: Severity::Info,
        summary: "some chunks are absent, in no pattern",
        explain: "Zarr leaves out chunks that hold nothing but the fill value.",
    },
    RuleInfo {
        id: "truncated-chunk",
        severity: Severity::Error,
        summary: "an object is shorter than its header says",
        explain: "",
    },
];

/// Returns a report of three stores: one metadata-only, one with a missing slab and NaN, one clean.
pub(crate) fn report() -> Report {
    let mut report = Report::new("0.1.0");
    report.rules = RULES.to_vec();
    report.stores = vec![
        store("/data/cache/batch_01.zarr", Some(412 << 20)),
        store("/data/cache/batch_02.zarr", Some(18 << 10)),
        store("/data/cache/batch_03.zarr", Some(311 << 20)),
    ];
    report.groups = vec![report.stores.iter().map(|store| store.url.clone()).collect()];
    report.findings = findings();
    report.summary = FindingCounts::of(&report.findings);
    report.variables = vec![variable("/t2m", 0, Some(281.4)), variable("/tp", 8_760, None)];
    report.series = vec![nan_over_time()];
    report.occupancy = vec![occupancy()];
    report
}

fn store(url: &str, bytes_stored: Option<u64>) -> StoreSummary {
    StoreSummary {
        url: url.into(),
        kind: "zarr".into(),
        arrays: 4,
        bytes_stored,
        bytes_decoded: Some(1_400 << 20),
        depth: "sample",
        complete: true,
        not_seen: vec!["values of chunks that were not sampled".into()],
    }
}

fn findings() -> Vec<Finding> {
    let of_nothing = |array: &str| Finding {
        store: "/data/cache/batch_02.zarr".into(),
        array: Some(array.into()),
        message: "it has metadata for 128 chunks, and not one of them is stored".into(),
        evidence: evidence(json!({"chunks_total": 128, "chunks_stored": 0})),
        remedy: Some("zkit slice gs://archive/era5.zarr /data/cache/batch_02.zarr --overwrite".into()),
        ..finding("metadata-only-array")
    };
    vec![
        Finding {
            severity: Severity::Info,
            message: "2 of 128 chunks are absent, in no pattern".into(),
            chunks: Some(vec![chunk_box(&[3, 1], &[3, 1]), chunk_box(&[9, 0], &[9, 0])]),
            evidence: evidence(json!({"absent": 2, "total": 128})),
            ..finding("absent-chunks")
        },
        Finding {
            message: "the last 4 of 16 chunks along `time` are absent".into(),
            chunks: Some(vec![chunk_box(&[12, 0], &[15, 7])]),
            evidence: evidence(json!({
                "absent": 32, "total": 128, "coordinates": {"time": ["2021-03-29", "2021-03-31"]}
            })),
            remedy: Some("zkit slice gs://archive/era5.zarr /data/cache/batch_03.zarr --overwrite".into()),
            ..finding("missing-slab")
        },
        of_nothing("/t2m"),
        of_nothing("/tp"),
        Finding {
            severity: Severity::Warning,
            confidence: Confidence::Medium,
            message: "3 steps are NaN, all others hold values".into(),
            array: Some("/tp".into()),
            remedy: Some("compare the steps with the source".into()),
            ..finding("nan-slab")
        },
    ]
}

fn evidence(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn chunk_box(first: &[u64], last: &[u64]) -> ChunkBox {
    ChunkBox { first: first.to_vec(), last: last.to_vec() }
}

fn variable(array: &str, nan: u64, mean: Option<f64>) -> Variable {
    Variable {
        store: "/data/cache/batch_03.zarr".into(),
        array: array.into(),
        data_type: "float32".into(),
        chunks_decoded: 12,
        chunks_total: 128,
        elements: 8_760,
        nan,
        missing: 0,
        infinite: 0,
        min: mean.map(|mean| mean - 40.0),
        max: mean.map(|mean| mean + 35.5),
        mean,
        raw_min: None,
        raw_max: None,
        dates: None,
    }
}

fn nan_over_time() -> Series {
    let value = |day: u32| if (29..=31).contains(&day) { Some(1.0) } else { Some(0.01 * f64::from(day % 5)) };
    let point = |day: u32| Point {
        label: format!("2021-03-{day:02}"),
        value: (day != 12).then(|| value(day)).flatten(),
    };
    Series {
        store: "/data/cache/batch_03.zarr".into(),
        array: "/tp".into(),
        what: "NaN fraction".into(),
        axis: "time".into(),
        points: (1..=31).map(point).collect(),
    }
}

fn occupancy() -> Occupancy {
    let names = [Some("time".to_owned()), Some("latitude".to_owned())];
    let mut map = GridMap::of_grid(&[16, 8], Some(&names)).expect("a grid");
    for position in 0..96 {
        let index = [position / 8, position % 8];
        if index != [3, 1] && index != [9, 0] {
            map.mark_chunk(&index);
        }
    }
    map.mark_bad(&chunk_box(&[12, 0], &[15, 7]));
    Occupancy {
        store: "/data/cache/batch_03.zarr".into(),
        array: "/t2m".into(),
        grid_shape: vec![16, 8],
        map,
    }
}

/// Returns a report whose every text from a store is `text`.
pub(crate) fn hostile_report(text: &str) -> Report {
    let mut report = report();
    for store in &mut report.stores {
        store.url = text.into();
        store.kind = text.into();
        store.not_seen = vec![text.into()];
        store.complete = false;
    }
    for finding in &mut report.findings {
        finding.store = text.into();
        finding.array = Some(text.into());
        finding.message = text.into();
        finding.evidence =
            Map::from_iter([(text.to_owned(), json!(text)), ("coordinates".into(), json!({text: text}))]);
        finding.remedy = Some(text.into());
    }
    for variable in &mut report.variables {
        (variable.store, variable.array, variable.data_type) = (text.into(), text.into(), text.into());
    }
    for series in &mut report.series {
        (series.store, series.array, series.what, series.axis) =
            (text.into(), text.into(), text.into(), text.into());
        series.points.iter_mut().for_each(|point| point.label = text.into());
    }
    for occupancy in &mut report.occupancy {
        (occupancy.store, occupancy.array) = (text.into(), text.into());
        let names = [Some(text.to_owned()), Some(text.to_owned())];
        occupancy.map = GridMap::of_grid(&[16, 8], Some(&names)).expect("a grid");
    }
    report.complete = false;
    report
}

/// Returns texts made of what is hostile, and of anything else.
pub(crate) fn hostile_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::collection::vec(prop::sample::select(&HOSTILE[..]), 1..4).prop_map(|parts| parts.concat())
    ]
}

/// Returns what a renderer writes of a report.
pub(crate) fn written(
    report: &Report,
    write: impl Fn(&mut Vec<u8>, &Report) -> std::io::Result<()>,
) -> String {
    let mut out = Vec::new();
    write(&mut out, report).expect("a vector takes everything");
    String::from_utf8(out).expect("reports are text")
}
