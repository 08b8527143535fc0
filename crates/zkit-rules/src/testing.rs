//! Stores for the tests of rules: written to a temporary folder, observed as an audit does.

use std::path::Path;
use std::time::SystemTime;

use zkit_core::cancel::Cancel;
use zkit_core::engine::{
    Agreement, Closeness, Repository, Resources, Sample, ScanTarget, scan_values, survey_references,
    survey_store,
};
use zkit_core::event::{Observer, Silent};
use zkit_core::hierarchy::{ArrayNode, Consolidation, Hierarchy, TargetFound};
use zkit_core::location::StoreUrl;
use zkit_core::read::ReadContext;
use zkit_core::select::{read_coordinate, standing_in};
use zkit_core::store::{Reach, Store, StoreOptions};
use zkit_report::Finding;

use crate::against::SourceObservation;
use crate::coordinates::{CoordinateObservation, is_worth_reading};
use crate::depth::Depth;
use crate::observe::{CacheObservation, StoreObservation};
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

/// Returns a store of an array `a` of float32, each row of which is a chunk.
pub(crate) fn store_of_rows(attributes: &str, rows: &[Vec<f32>]) -> TestStore {
    let width = rows[0].len() as u64;
    let store = TestStore::new()
        .array("a", &v2_array(&[rows.len() as u64, width], &[1, width]))
        .file("a/.zattrs", attributes.as_bytes());
    rows.iter().enumerate().fold(store, |store, (at, row)| {
        let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
        store.file(&format!("a/{at}.0"), &bytes)
    })
}

/// References of an array `a` of four chunks: one beside them, two that lead elsewhere, one inline.
pub(crate) const REFERENCES: &str = r#"{"version":1,"refs":{".zgroup":"{\"zarr_format\":2}",
    "a/.zarray":{"zarr_format":2,"shape":[8],"chunks":[2],"dtype":"|u1","fill_value":0,"compressor":null,"filters":null,"order":"C"},
    "a/0":["air.nc",10,2],"a/1":["file:///etc/hostname",0,2],"a/2":["http://169.254.169.254/x",0,2],"a/3":"ab"}}"#;

/// Returns a zip file of stored members.
pub(crate) fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in members {
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend(crc32(bytes).to_le_bytes());
        for length in [bytes.len(), bytes.len()] {
            common.extend(u32::try_from(length).unwrap().to_le_bytes());
        }
        common.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(u32::try_from(file.len()).unwrap().to_le_bytes());
        directory.extend(name.as_bytes());
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(name.as_bytes());
        file.extend(*bytes);
    }
    let lengths = [directory.len(), file.len()].map(|length| u32::try_from(length).unwrap().to_le_bytes());
    let count = u16::try_from(members.len()).unwrap().to_le_bytes();
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count, count].concat());
    file.extend(lengths.concat());
    file.extend([0, 0]);
    file
}

/// Source: PKWARE's APPNOTE 4.4.7, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

impl TestStore {
    pub(crate) fn new() -> Self {
        Self::bare().file(".zgroup", br#"{"zarr_format": 2}"#)
    }

    /// A store without metadata at its root.
    pub(crate) fn bare() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), policy: Policy::default() }
    }

    pub(crate) fn file(self, key: &str, bytes: &[u8]) -> Self {
        let path = self.folder.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    pub(crate) fn link(self, key: &str, target: &str) -> Self {
        std::os::unix::fs::symlink(target, self.folder.path().join(key)).unwrap();
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

    fn open(&self) -> Hierarchy {
        Hierarchy::open(&StoreUrl::Local(self.path().to_owned()), &StoreOptions::default()).unwrap()
    }

    /// Opens the store as an audit does: nodes are read for themselves.
    fn open_both(&self) -> (Hierarchy, Option<Consolidation>) {
        let mut hierarchy = self.open();
        let consolidation = hierarchy.prefer_nodes().unwrap();
        (hierarchy, consolidation)
    }

    /// Returns what is kept of the store.
    pub(crate) fn summary(&self) -> StoreSummary {
        StoreSummary::of(&observe(&self.open(), &self.policy))
    }

    /// Hands over what is observed of the store.
    pub(crate) fn observed(&self, judge: impl FnOnce(&StoreObservation<'_>)) {
        judge(&observe(&self.open(), &self.policy));
    }

    /// Returns what one rule finds, with headers and coordinates read.
    pub(crate) fn findings(&self, rule: &str) -> Vec<Finding> {
        let (hierarchy, consolidation) = self.open_both();
        let mut observed = observe(&hierarchy, &self.policy);
        observed.consolidation = consolidation.as_ref();
        check_store(&observed).into_iter().filter(|finding| finding.rule == rule).collect()
    }

    /// Returns what one rule finds in the references `refs.json`, with targets beside them followed.
    pub(crate) fn reference_findings(&self, rule: &str) -> Vec<Finding> {
        let (hierarchy, mut references) = Hierarchy::read_references(&self.path().join("refs.json")).unwrap();
        for target in references.targets.iter_mut().filter(|target| target.reach == Reach::Beside) {
            let found = std::fs::metadata(self.path().join(&target.url));
            target.found = Some(found.map_or(TargetFound::Absent, |found| TargetFound::Bytes(found.len())));
        }
        let nodes: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
        let mut observed = StoreObservation::of_metadata(&hierarchy, &nodes, &self.policy, SystemTime::now());
        observed.depth = Depth::Headers;
        for (array, survey) in observed.arrays.iter_mut().zip(survey_references(&nodes, &references)) {
            array.survey = Some(survey);
        }
        observed.references = Some(references);
        check_store(&observed).into_iter().filter(|finding| finding.rule == rule).collect()
    }

    /// Returns what one rule finds where a repository looks like that.
    pub(crate) fn repository_findings(&self, rule: &str, repository: Repository) -> Vec<Finding> {
        let hierarchy = self.open();
        let mut observed = observe(&hierarchy, &self.policy);
        observed.repository = Some(repository);
        check_store(&observed).into_iter().filter(|finding| finding.rule == rule).collect()
    }

    /// Returns what one rule finds in the zip file `a.zip`.
    pub(crate) fn zip_findings(&self, rule: &str) -> Vec<Finding> {
        let hierarchy = Hierarchy::open_zip_or_damage(&self.path().join("a.zip")).unwrap();
        check_store(&observe(&hierarchy, &self.policy))
            .into_iter()
            .filter(|finding| finding.rule == rule)
            .collect()
    }

    /// Returns what one rule finds beside the store that this one was written from.
    pub(crate) fn findings_against(&self, rule: &str, source: &Self) -> Vec<Finding> {
        self.findings_beside(rule, source, &[])
    }

    /// Returns what one rule finds beside the store that this one was written from, where arrays compare like that.
    pub(crate) fn findings_beside(
        &self,
        rule: &str,
        source: &Self,
        agreements: &[(&str, Agreement)],
    ) -> Vec<Finding> {
        let (hierarchy, original) = (self.open(), source.open());
        let mut observed = observe(&hierarchy, &self.policy);
        let mut against = SourceObservation::of_metadata(&original);
        for other in coordinates(&original, &self.policy) {
            let path = &other.coordinate.path;
            let standing =
                observed.coordinate(path).and_then(|own| standing_in(&own.coordinate, &other.coordinate));
            against.standing.extend(standing.map(|standing| (path.clone(), standing)));
        }
        against.agreements =
            agreements.iter().map(|(path, agreement)| ((*path).to_owned(), agreement.clone())).collect();
        observed.source = Some(against);
        check_store(&observed).into_iter().filter(|finding| finding.rule == rule).collect()
    }
}

/// Returns what one rule finds in several stores together, under the policy of the first.
pub(crate) fn cache_findings(rule: &str, stores: &[TestStore]) -> Vec<Finding> {
    let summaries: Vec<StoreSummary> =
        stores.iter().map(|store| StoreSummary::of(&observe(&store.open(), &store.policy))).collect();
    let cache = CacheObservation { url: "cache", stores: &summaries, policy: &stores[0].policy };
    check_cache(&cache).into_iter().filter(|finding| finding.rule == rule).collect()
}

fn observe<'a>(hierarchy: &'a Hierarchy, policy: &'a Policy) -> StoreObservation<'a> {
    let nodes: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
    let mut observed = StoreObservation::of_metadata(hierarchy, &nodes, policy, SystemTime::now());
    observed.depth = Depth::Sample;
    (observed.v2_twins, observed.v2_twin_defects) = hierarchy.v2_twins().unwrap();
    if let Some(store) = &hierarchy.store {
        let run: (&dyn Observer, &Cancel) = (&Silent::default(), &Cancel::default());
        let seen = survey_store(store, &nodes, &nodes, Closeness::Headers, run).unwrap();
        for (array, survey) in observed.arrays.iter_mut().zip(seen.arrays) {
            array.survey = Some(survey);
        }
        observed.files = seen.files;
        observed.coordinates = coordinates(hierarchy, policy);
        scan(store, &mut observed);
    }
    observed
}

/// Scans all values.
fn scan(store: &Store, observed: &mut StoreObservation<'_>) {
    let listed: Vec<_> = observed
        .arrays
        .iter()
        .map(|array| (array.node, array.survey.as_ref().and_then(|survey| survey.listing.as_ref())))
        .collect();
    let targets: Vec<_> = listed.into_iter().map(|(array, listing)| ScanTarget { array, listing }).collect();
    let resources = Resources { memory_bytes: 64 << 20, jobs: 1 };
    let run: (&dyn Observer, &Cancel) = (&Silent::default(), &Cancel::default());
    let values = scan_values(store, &targets, (Sample::Full, 0), resources, run.0, run.1).unwrap();
    for (array, values) in observed.arrays.iter_mut().zip(values) {
        array.values = Some(values);
    }
}

fn coordinates(hierarchy: &Hierarchy, policy: &Policy) -> Vec<CoordinateObservation> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (cancel, silent) = (Cancel::default(), Silent::default());
    let context = ReadContext {
        pool: &pool,
        cancel: &cancel,
        meter: silent.meter(),
        in_flight_bytes: ReadContext::IN_FLIGHT_BYTES,
    };
    let Some(store) = &hierarchy.store else { return Vec::new() };
    let wanted = hierarchy.arrays.iter().filter(|node| is_worth_reading(node, policy));
    let read = wanted.filter_map(|node| read_coordinate(store, node, 1 << 24, context).ok());
    read.map(CoordinateObservation::new).collect()
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

/// Returns what one rule finds in a cache of these stores.
pub(crate) fn summary_findings(rule: &str, stores: &[StoreSummary]) -> Vec<Finding> {
    let policy = Policy::default();
    let cache = CacheObservation { url: "cache", stores, policy: &policy };
    check_cache(&cache).into_iter().filter(|finding| finding.rule == rule).collect()
}
