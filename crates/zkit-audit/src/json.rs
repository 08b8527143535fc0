//! The answer for programs. Fields are added, never renamed or removed.

use serde::Serialize;
use zkit_report::{Finding, FindingCounts};
use zkit_rules::summary::StoreSummary;

/// The whole answer.
#[derive(Debug, Serialize)]
pub(crate) struct Output<'a> {
    schema_version: u32,
    stores: Vec<StoreJson<'a>>,
    findings: &'a [Finding],
    summary: FindingCounts,
    complete: bool,
}

#[derive(Debug, Serialize)]
struct StoreJson<'a> {
    url: &'a str,
    kind: &'static str,
    arrays: usize,
    bytes_stored: Option<u64>,
    bytes_decoded: u64,
    depth: &'static str,
}

impl<'a> Output<'a> {
    pub(crate) fn new(stores: &'a [StoreSummary], findings: &'a [Finding], complete: bool) -> Self {
        let stores = stores.iter().map(|store| StoreJson {
            url: &store.url,
            kind: store.kind.name(),
            arrays: store.arrays.len(),
            bytes_stored: store.bytes_stored,
            bytes_decoded: store.bytes_decoded,
            depth: store.depth.name(),
        });
        Self {
            schema_version: 1,
            stores: stores.collect(),
            findings,
            summary: FindingCounts::of(findings),
            complete,
        }
    }
}
