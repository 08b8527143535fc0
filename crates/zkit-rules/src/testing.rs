//! Stores for the tests of rules: written to a temporary folder, observed as an audit does.

use std::path::Path;
use std::time::SystemTime;

use zkit_core::cancel::Cancel;
use zkit_core::engine::{SurveyDepth, survey};
use zkit_core::event::Silent;
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::location::StoreUrl;
use zkit_core::store::StoreOptions;
use zkit_report::Finding;

use crate::depth::Depth;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::policy::Policy;
use crate::registry::check_store;

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

    /// Returns what all rules that `rule` names find at depth `headers`.
    pub(crate) fn findings(&self, rule: &str) -> Vec<Finding> {
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
            depth: Depth::Headers,
            policy: &self.policy,
            now,
        };
        check_store(&store).into_iter().filter(|finding| finding.rule == rule).collect()
    }
}
