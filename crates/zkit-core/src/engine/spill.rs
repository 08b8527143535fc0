//! Rechunks through scratch space: one array after the other, each stage on every core.

use std::path::Path;

use super::copy::{CorruptChunk, Endpoint, RunOptions, Whole, run_units};
use super::prepared::Place;
use super::sink::Sink;
use super::survey::{SurveyDepth, survey};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Observer, Silent};
use crate::plan::{CopyPlan, Spill, Stage, Stored, Totals};
use crate::store::{LocalStore, LocalWriter, Store, write_error};

/// Runs both stages of every round of one array.
pub(super) fn run_spill(
    plan: &CopyPlan,
    place: Place,
    spill: &Spill,
    endpoint: &Endpoint<'_>,
    options: RunOptions,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<CorruptChunk>> {
    let array = &plan.arrays[place.in_plan];
    let scratch = endpoint.scratch.ok_or_else(|| {
        let message = format!(
            "could not rechunk `{}`: it is planned through scratch space, and has none",
            array.source.path
        );
        Error::new(ErrorKind::Usage, message)
    })?;
    let mut corrupt = Vec::new();
    for round in 0..spill.rounds {
        clear(scratch)?;
        std::fs::create_dir_all(scratch).map_err(|error| write_error(scratch, "create", error))?;
        let writer = LocalWriter::open(scratch)?;
        let sink = Sink::Local { writer: &writer, journal: None };
        let pieces = Endpoint { sink, done: &[], resumed: false, ..*endpoint };
        corrupt.extend(run_stage(
            plan,
            Whole::Scatter(place),
            array.scatter(spill, round),
            &pieces,
            options,
            observer,
            cancel,
        )?);
        let store = Store::Local(LocalStore::open(scratch, false)?);
        let stored = stored_pieces(&store, spill, cancel)?;
        let gathered = Endpoint { source: &store, ..*endpoint };
        run_stage(
            plan,
            Whole::Gather(place),
            array.gather(spill, round, stored),
            &gathered,
            options,
            observer,
            cancel,
        )?;
    }
    clear(scratch)?;
    Ok(corrupt)
}

fn run_stage(
    plan: &CopyPlan,
    whole: Whole,
    stage: Stage,
    endpoint: &Endpoint<'_>,
    options: RunOptions,
    observer: &dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<CorruptChunk>> {
    let stage = CopyPlan {
        arrays: vec![stage.array],
        stores: plan.stores[..1].to_vec(),
        units: stage.units,
        totals: Totals::default(),
        jobs: plan.jobs,
        memory: plan.memory,
    };
    let endpoints = std::slice::from_ref(endpoint);
    run_units(&stage, endpoints, whole, options, observer, cancel, &mut |_, _| Ok(()))
}

/// Lists the pieces that the first stage wrote.
fn stored_pieces(store: &Store, spill: &Spill, cancel: &Cancel) -> Result<Stored> {
    let depth = SurveyDepth::Listing { sample_most: 0 };
    let listing = survey(store, &[&spill.pieces], depth, &Silent::default(), cancel)?.pop();
    let listing = listing.and_then(|survey| survey.listing).ok_or_else(|| {
        Error::new(ErrorKind::Unreadable, format!("could not list the scratch space {}", store.place()))
    })?;
    Ok(Stored {
        bytes: listing.bytes_stored,
        largest_bytes: listing.sizes.range().map_or(0, |(_, largest)| largest),
        chunks: listing.stored,
    })
}

/// Removes the scratch space of this run, or of one that died.
fn clear(scratch: &Path) -> Result<()> {
    match std::fs::remove_dir_all(scratch) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(write_error(scratch, "remove", error))
        }
        _ => Ok(()),
    }
}
