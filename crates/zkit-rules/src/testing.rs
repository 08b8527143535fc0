//! Stores for the tests of rules: written to a temporary folder, observed as an audit does.

use std::path::Path;
use std::time::SystemTime;

use zkit_core::cancel::Cancel;
use zkit_core::engine::{SurveyDepth, survey};
use zkit_core::event::{Observer, Silent};
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::location::StoreUrl;
use zkit_core::read::ReadContext;
use zkit_core::select::read_coordinate;
use zkit_core::store::StoreOptions;
use zkit_report::Finding;

use crate::coordinates::{CoordinateObservation, is_worth_reading};
use crate::depth::Depth;
use crate::observe::{ArrayObservation, CacheObservation, StoreObservation};
use crate::policy::Policy;
use crate::registry::{check_cache, check_store};
use crate::summary::StoreSummary;

/// A store of files in a temporary folder, with a root group.
pub(crate) struct TestStore {
    folder: tempfile::TempDir,
    policy: Policy,
}

/// Returns a `.zarray` of uncompressed float32 with fill value 0.
pub(crate) fn v2_array(shape: &[u64], chunks: &[u64]) -> String {
    serde_json::json!({
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f4", "fill_value": 0,
        "compressor": null, "filters": null, "order": "C",
    })
    .to_string()
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let store = Self { folder: tempfile::tempdir().unwrap(), policy: Policy::default() };
        store.file(".zgroup", br#"{"zarr_format": 2}"#)
    }

    pub(crate) fn file(self, key: &str, bytes: &[u8]) -> Self {
        let path = self.folder.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    pub(crate) fn array(self, path: &str, zarray: &str) -> Self {
        self.file(&format!("{path}/.zarray"), zarray.as_bytes())
    }

    pub(crate) fn with_policy(mut self, text: &str) -> Self {
        self.policy = toml::from_str(text).unwrap();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns what the rule of that id finds, with coordinates read.
    pub(crate) fn findings(&self, rule: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.observed(|store| findings = check_store(store));
        findings.into_iter().filter(|finding| finding.rule == rule).collect()
    }

    /// Returns what is kept of the store.
    pub(crate) fn summary(&self) -> StoreSummary {
        let mut summary = None;
        self.observed(|store| summary = Some(StoreSummary::of(store)));
        summary.unwrap()
    }

    /// Observes the store: headers of all chunks, and coordinates.
    pub(crate) fn observed(&self, judge: impl FnOnce(&StoreObservation<'_>)) {
        let url = StoreUrl::Local(self.path().to_owned());
        let hierarchy = Hierarchy::open(&url, &StoreOptions::default()).unwrap();
        let nodes: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
        let depth = SurveyDepth::Headers { sample_most: usize::MAX };
        let surveys = match &hierarchy.store {
            Some(store) => survey(store, &nodes, depth, &Silent::default(), &Cancel::default()).unwrap(),
            None => Vec::new(),
        };
        let mut surveys = surveys.into_iter();
        let arrays =
            nodes.into_iter().map(|node| ArrayObservation { node, survey: surveys.next() }).collect();
        let now = SystemTime::now();
        let store = StoreObservation {
            hierarchy: &hierarchy,
            arrays,
            depth: Depth::Sample,
            policy: &self.policy,
            now,
            coordinates: self.coordinates(&hierarchy),
            unread_coordinates: Vec::new(),
        };
        judge(&store);
    }

    fn coordinates(&self, hierarchy: &Hierarchy) -> Vec<CoordinateObservation> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let (cancel, silent) = (Cancel::default(), Silent::default());
        let context = ReadContext { pool: &pool, cancel: &cancel, meter: silent.meter() };
        let Some(store) = &hierarchy.store else { return Vec::new() };
        let wanted = hierarchy.arrays.iter().filter(|node| is_worth_reading(node, &self.policy));
        let read = wanted.filter_map(|node| read_coordinate(store, node, 1 << 24, context).ok());
        read.map(CoordinateObservation::new).collect()
    }
}

/// Adds a coordinate of 64-bit integers, written in one chunk.
pub(crate) fn coordinate_array(store: TestStore, name: &str, values: &[i64], attributes: &str) -> TestStore {
    let zarray = serde_json::json!({
        "zarr_format": 2, "shape": [values.len()], "chunks": [values.len()], "dtype": "<i8", "fill_value": null,
        "compressor": null, "filters": null, "order": "C",
    });
    let mut attributes: serde_json::Value = serde_json::from_str(attributes).unwrap();
    attributes["_ARRAY_DIMENSIONS"] = serde_json::json!([name]);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    store
        .array(name, &zarray.to_string())
        .file(&format!("{name}/.zattrs"), attributes.to_string().as_bytes())
        .file(&format!("{name}/0"), &bytes)
}

/// Returns what the rule of that id finds in a cache of these stores.
pub(crate) fn check_summaries(stores: Vec<StoreSummary>, rule: &str) -> Vec<Finding> {
    let policy = Policy::default();
    let cache = CacheObservation { url: "cache", stores: &stores, policy: &policy };
    check_cache(&cache).into_iter().filter(|finding| finding.rule == rule).collect()
}
