//! Observing one store, as closely as was asked for.

use std::time::SystemTime;

use zkit_core::cancel::Cancel;
use zkit_core::engine::{ArraySurvey, SurveyDepth, survey};
use zkit_core::error::Result;
use zkit_core::event::Observer;
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_rules::Depth;
use zkit_rules::observe::{ArrayObservation, StoreObservation};
use zkit_rules::policy::Policy;

/// What holds for all stores of a run.
pub(crate) struct Run<'a> {
    pub(crate) depth: Depth,
    pub(crate) policy: &'a Policy,
    pub(crate) now: SystemTime,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
}

/// Observes a store: the arrays that `nodes` names.
pub(crate) fn observe<'a>(
    hierarchy: &'a Hierarchy,
    nodes: &[&'a ArrayNode],
    run: &Run<'a>,
) -> Result<StoreObservation<'a>> {
    let mut surveys = surveys(hierarchy, nodes, run)?.into_iter();
    let arrays = nodes.iter().map(|&node| ArrayObservation { node, survey: surveys.next() }).collect();
    Ok(StoreObservation { hierarchy, arrays, depth: run.depth, policy: run.policy, now: run.now })
}

fn surveys(hierarchy: &Hierarchy, nodes: &[&ArrayNode], run: &Run<'_>) -> Result<Vec<ArraySurvey>> {
    let Some(store) = &hierarchy.store else { return Ok(Vec::new()) };
    let depth = match run.depth {
        Depth::Metadata => return Ok(Vec::new()),
        Depth::Listing => SurveyDepth::Listing { sample_most: 0 },
        Depth::Headers | Depth::Sample | Depth::Full => SurveyDepth::Headers { sample_most: usize::MAX },
    };
    survey(store, nodes, depth, run.observer, run.cancel)
}
