//! Observing one store, as closely as was asked for.

use std::time::SystemTime;

use zkit_core::cancel::Cancel;
use zkit_core::engine::{Closeness, Resources, Sample, survey_store};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::event::Observer;
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::store::Store;
use zkit_rules::Depth;
use zkit_rules::observe::StoreObservation;
use zkit_rules::policy::Policy;

use crate::{coordinates, values};

/// What holds for all stores of a run.
pub(crate) struct Run<'a> {
    pub(crate) depth: Depth,
    /// What is decoded at depth `sample`, and the seed that draws it.
    pub(crate) sample: (Sample, u64),
    pub(crate) resources: Resources,
    pub(crate) policy: &'a Policy,
    pub(crate) now: SystemTime,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
}

/// Observes a store: of its arrays, those that `nodes` names.
pub(crate) fn observe<'a>(
    hierarchy: &'a Hierarchy,
    nodes: &[&'a ArrayNode],
    run: &Run<'a>,
) -> Result<StoreObservation<'a>> {
    let mut observed = StoreObservation::of_metadata(hierarchy, nodes, run.policy, run.now);
    observed.depth = run.depth;
    let Some(store) = &hierarchy.store else { return Ok(observed) };
    // over a network each node costs requests
    let remote = matches!(store, Store::Remote(_));
    if !remote || run.depth >= Depth::Headers {
        observed.nodes = hierarchy.one_by_one()?;
    }
    if !remote || run.depth >= Depth::Listing {
        (observed.v2_twins, observed.v2_twin_defects) = hierarchy.v2_twins()?;
    }
    let closeness = match run.depth {
        Depth::Metadata => return Ok(observed),
        Depth::Listing => Closeness::Listing,
        Depth::Headers | Depth::Sample | Depth::Full => Closeness::Headers,
    };
    let all: Vec<&ArrayNode> = hierarchy.arrays.iter().collect();
    let seen = survey_store(store, &all, nodes, closeness, (run.observer, run.cancel)).map_err(unlistable)?;
    for (array, survey) in observed.arrays.iter_mut().zip(seen.arrays) {
        array.survey = Some(survey);
    }
    observed.files = Some(seen.files);
    if run.depth >= Depth::Sample {
        coordinates::read(&mut observed, run)?;
        values::scan(&mut observed, run)?;
    }
    Ok(observed)
}

fn unlistable(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unsupported => error.with_hint("pass --depth metadata, which needs no listing"),
        _ => error,
    }
}
