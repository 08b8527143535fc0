//! What rules see: facts about one store, or about all stores of a run, without judgement.

use std::collections::BTreeSet;
use std::time::SystemTime;

use zkit_core::engine::{ArraySurvey, ArrayValues, ChunkFault, FaultyChunks, StoreFiles};
use zkit_core::engine::{N5Dataset, Repository};
use zkit_core::hierarchy::{ArrayNode, Consolidation, Hierarchy, References};
use zkit_core::metadata::{Defect, Json};

use crate::against::SourceObservation;
use crate::coordinates::{CoordinateObservation, UnreadCoordinate};
use crate::depth::Depth;
use crate::policy::{Policy, VariableRules};
use crate::summary::StoreSummary;

/// All that was observed of one store.
#[derive(Debug)]
pub struct StoreObservation<'a> {
    /// What its metadata says: that of the nodes themselves, wherever it was read.
    pub hierarchy: &'a Hierarchy,
    /// The arrays that the run is about, sorted by path.
    pub arrays: Vec<ArrayObservation<'a>>,
    /// What lies in it and belongs to no array; `None` at [`Depth::Metadata`], and where nothing can be listed.
    pub files: Option<StoreFiles>,
    /// What consolidated metadata says, and what the nodes say; `None` where there is none, or the nodes were not read.
    pub consolidation: Option<&'a Consolidation>,
    /// v2 metadata that lies beside the v3 metadata of arrays, sorted by path.
    pub v2_twins: Vec<ArrayNode>,
    /// What is wrong with that v2 metadata.
    pub v2_twin_defects: Vec<Defect>,
    /// The store that it was written from, if the run compares with one.
    pub source: Option<SourceObservation<'a>>,
    /// What its references point to, if it is a set of references.
    pub references: Option<References>,
    /// The arrays, by path, whose references lead to what may not be read, or is not there as long as they say: their
    /// values were not looked at.
    pub out_of_reach: BTreeSet<String>,
    /// What is wrong with the objects of an Icechunk repository, if it is one.
    pub repository: Option<Repository>,
    /// What was seen of the blocks of an N5 container, if it is one.
    pub n5: Vec<N5Dataset>,
    /// How closely it was looked at; what a shallower depth would have seen is there.
    pub depth: Depth,
    /// What the owner says.
    pub policy: &'a Policy,
    /// When the run began; the grace period ends here.
    pub now: SystemTime,
    /// The coordinates that were read, sorted by path; none below [`Depth::Sample`].
    pub coordinates: Vec<CoordinateObservation>,
    /// The coordinates that were not read though the depth asks for it, sorted by path.
    pub unread_coordinates: Vec<UnreadCoordinate>,
}

/// All that was observed of one array.
#[derive(Debug)]
pub struct ArrayObservation<'a> {
    /// What its metadata says.
    pub node: &'a ArrayNode,
    /// What is stored of it; `None` at [`Depth::Metadata`], and where nothing can be listed.
    pub survey: Option<ArraySurvey>,
    /// What its decoded chunks hold; `None` below [`Depth::Sample`], and where nothing can be decoded.
    pub values: Option<ArrayValues>,
}

/// All stores of one run.
#[derive(Debug)]
pub struct CacheObservation<'a> {
    /// The folder or pattern that was audited.
    pub url: &'a str,
    /// What is kept of each store, sorted by URL.
    pub stores: &'a [StoreSummary],
    /// What the owner says.
    pub policy: &'a Policy,
}

impl<'a> StoreObservation<'a> {
    /// Returns the array at `path`, which starts with `/`, if the run is about it.
    pub fn array(&self, path: &str) -> Option<&ArrayObservation<'a>> {
        let found = self.arrays.binary_search_by(|array| array.path().cmp(path)).ok()?;
        self.arrays.get(found)
    }

    /// Returns an observation of metadata alone.
    pub fn of_metadata(
        hierarchy: &'a Hierarchy,
        nodes: &[&'a ArrayNode],
        policy: &'a Policy,
        now: SystemTime,
    ) -> Self {
        let arrays = nodes.iter().map(|&node| ArrayObservation { node, survey: None, values: None });
        Self {
            hierarchy,
            arrays: arrays.collect(),
            files: None,
            consolidation: None,
            v2_twins: Vec::new(),
            v2_twin_defects: Vec::new(),
            source: None,
            references: None,
            out_of_reach: BTreeSet::new(),
            repository: None,
            n5: Vec::new(),
            depth: Depth::Metadata,
            policy,
            now,
            coordinates: Vec::new(),
            unread_coordinates: Vec::new(),
        }
    }

    /// Returns what the core found wrong under one rule: with nodes, and with arrays that could not be listed. What is
    /// wrong with single chunks is in [`Self::faults`].
    pub fn defects(&self, rule: &str) -> impl Iterator<Item = &Defect> {
        let surveyed = self.arrays.iter().filter_map(|array| array.survey.as_ref());
        let unlisted = surveyed.filter(|survey| survey.listing.is_none());
        let all = self.hierarchy.defects.iter().chain(&self.v2_twin_defects);
        let all = all.chain(self.n5.iter().flat_map(|dataset| &dataset.defects));
        all.chain(unlisted.flat_map(|survey| &survey.defects)).filter(move |defect| defect.rule == rule)
    }

    /// Returns the chunks that are wrong in one way, array by array.
    pub fn faults(&self, fault: ChunkFault) -> impl Iterator<Item = (&ArrayObservation<'a>, &FaultyChunks)> {
        self.arrays.iter().filter_map(move |array| {
            let survey = array.survey.as_ref()?;
            Some((array, survey.faults.iter().find(|faulty| faulty.fault == fault)?))
        })
    }

    /// Returns whether something that changed at `changed` (seconds since 1970) is older than the grace period.
    pub fn is_settled(&self, changed: Option<i64>) -> bool {
        let (Some(changed), false) = (changed, self.policy.grace.is_zero()) else { return true };
        let now = self.now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let age = i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(changed);
        u64::try_from(age).is_ok_and(|age| age >= self.policy.grace.as_secs())
    }

    /// Returns what the policy says of the array at `path`, and what the convention of the store says of all.
    pub fn variable(&self, path: &str) -> VariableRules {
        let mut rules = self.policy.variable(path);
        rules.nan_allowed |= self.missing_is_nan();
        rules
    }

    /// Returns whether NaN stands for what is missing by the convention that the store declares.
    /// Source: the VCF Zarr specification, "Missing and fill values".
    fn missing_is_nan(&self) -> bool {
        let root = self.hierarchy.groups.iter().find(|group| group.path == "/");
        root.is_some_and(|root| root.attributes.get("vcf_zarr_version").is_some())
    }

    /// Returns the coordinate array of a dimension of `array`: of its name, one-dimensional, in the same group or one
    /// above it.
    pub fn coordinate_of(
        &self,
        array: &ArrayObservation<'a>,
        dimension: usize,
    ) -> Option<&ArrayObservation<'a>> {
        let name = array.dimension_name(dimension)?;
        let mut group = array.group();
        loop {
            let path = if group.is_empty() { format!("/{name}") } else { format!("{group}/{name}") };
            if let Some(found) = self.array(&path)
                && found.node.metadata.shape().len() == 1
            {
                return Some(found);
            }
            group = group.rsplit_once('/')?.0;
        }
    }

    /// Returns the paths of the arrays that are coordinates: named as one of their dimensions, or listed in a
    /// `coordinates` attribute of another array or group. Source: CF conventions, section 5.
    pub fn coordinate_paths(&self) -> BTreeSet<&str> {
        let mut paths = BTreeSet::new();
        for array in &self.arrays {
            let names = array.node.metadata.dimension_names.iter().flatten().flatten();
            if names.into_iter().any(|dimension| dimension == array.name()) {
                paths.insert(array.path());
            }
            let attribute = array.node.metadata.attributes.get("coordinates").and_then(Json::as_str);
            let listed = attribute.into_iter().flat_map(str::split_whitespace);
            for name in listed {
                if let Some(found) = self.array(&format!("{}/{name}", array.group())) {
                    paths.insert(found.path());
                }
            }
        }
        for group in &self.hierarchy.groups {
            let attribute = group.attributes.get("coordinates").and_then(Json::as_str);
            for name in attribute.into_iter().flat_map(str::split_whitespace) {
                if let Some(found) = self.array(&format!("{}/{name}", group.path.trim_end_matches('/'))) {
                    paths.insert(found.path());
                }
            }
        }
        paths
    }
}

impl<'a> ArrayObservation<'a> {
    /// Returns its path, starting with `/`.
    pub fn path(&self) -> &'a str {
        &self.node.path
    }

    /// Returns the last part of its path.
    pub fn name(&self) -> &'a str {
        self.node.path.rsplit('/').next().unwrap_or(&self.node.path)
    }

    /// Returns the path of its group, without a trailing `/`: empty for the root.
    pub fn group(&self) -> &'a str {
        self.node.path.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the name of a dimension, if it has one.
    pub fn dimension_name(&self, dimension: usize) -> Option<&'a str> {
        self.node.metadata.dimension_names.as_ref()?.get(dimension)?.as_deref()
    }

    /// Returns the name of a dimension, or what stands for it: `dimension 0`.
    pub fn dimension_label(&self, dimension: usize) -> String {
        self.dimension_name(dimension).map_or_else(|| format!("dimension {dimension}"), str::to_owned)
    }

    /// Returns the key of a stored chunk (shard where sharded), relative to the array.
    pub fn chunk_key(&self, position: u64) -> String {
        let mut key = String::new();
        let metadata = &self.node.metadata;
        metadata.chunk_keys.push_key(&metadata.grid.index_at(position), &mut key);
        key
    }

    /// Returns how many chunks (shards where sharded) the grid has, and how many are stored; `None` if unknown.
    pub fn occupancy(&self) -> Option<(u64, u64)> {
        let listing = self.survey.as_ref()?.listing.as_ref()?;
        Some((self.node.metadata.grid.total()?, listing.stored.len()))
    }
}

impl CacheObservation<'_> {
    /// Returns the depth that all stores were looked at with, at least.
    pub fn depth(&self) -> Depth {
        self.stores.iter().map(|store| store.depth).min().unwrap_or(Depth::Metadata)
    }
}
