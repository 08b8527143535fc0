//! Rechunks through scratch space: one array after the other, each stage on every core.
//!
//! A run that is resumed goes on in the middle: pieces that are there and as they were recorded are not made again, and
//! rounds of which all chunks are done are passed over.

mod scratch;

pub use self::scratch::{LeftPieces, Scratch};

use super::copy::{CorruptChunk, Endpoint, RunOptions, Whole, run_units};
use super::prepared::Place;
use super::sink::Sink;
use super::survey::{SurveyDepth, survey};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Observer, Silent};
use crate::grid::{ChunkSet, for_each_index};
use crate::plan::{ArrayCopy, CopyPlan, Spill, Stage, Stored, Totals};
use crate::store::{LocalStore, Store};

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
    let done = endpoint.done.get(place.in_store);
    let mut corrupt = Vec::new();
    for round in (0..spill.rounds).filter(|&round| !is_done(array, spill, round, done)) {
        let pieces = scratch.begin(array, spill, round, plan.jobs, cancel)?;
        let sink = Sink::Local { writer: &pieces.writer, journal: Some(&pieces.journal) };
        let scattered = Endpoint { sink, done: &pieces.done, resumed: pieces.reused, ..*endpoint };
        // of the store of pieces there is one array
        let alone = Place { in_store: 0, ..place };
        let skipped = run_stage(
            plan,
            Whole::Scatter(alone),
            array.scatter(spill, round),
            &scattered,
            options,
            observer,
            cancel,
        )?;
        let whole = if skipped.is_empty() { Whole::Gather(place) } else { Whole::GatherAround(place) };
        corrupt.extend(skipped);
        let store = Store::Local(LocalStore::open(pieces.writer.root(), false)?);
        let stored = stored_pieces(&store, spill, cancel)?;
        let gathered = Endpoint { source: &store, ..*endpoint };
        let stage = array.gather(spill, round, stored);
        run_stage(plan, whole, stage, &gathered, options, observer, cancel)?;
        drop(pieces);
        scratch.clear()?;
    }
    scratch.clear()?;
    Ok(corrupt)
}

/// Removes what earlier runs left in scratch space and is of no use to this one.
pub(super) fn clear_left(plan: &CopyPlan, endpoints: &[Endpoint<'_>]) -> Result<()> {
    for (store, endpoint) in endpoints.iter().enumerate() {
        let Some(scratch) = &endpoint.scratch else { continue };
        let spills = plan.arrays.iter().any(|array| array.store == store && array.spill.is_some());
        if spills && scratch.left == LeftPieces::Reuse {
            continue;
        }
        match scratch.clear() {
            // whoever needs no scratch space is not in the way of another run there
            Err(error) if error.kind() == ErrorKind::Conflict && !spills => {}
            cleared => cleared?,
        }
    }
    Ok(())
}

/// Returns whether all chunks of a round are there already.
fn is_done(array: &ArrayCopy, spill: &Spill, round: u64, done: Option<&ChunkSet>) -> bool {
    let Some(done) = done.filter(|done| !done.is_empty()) else { return false };
    let grid = &array.target.metadata.grid;
    array.gather_units(spill, round).into_iter().all(|unit| {
        let missing = |index: &[u64]| match grid.position_of(index).is_some_and(|at| done.contains(at)) {
            true => Ok(()),
            false => Err(()),
        };
        for_each_index(&spill.gather.chunk_ranges(grid, unit), missing).is_ok()
    })
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
    Ok(listing.into())
}
