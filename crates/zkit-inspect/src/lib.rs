//! `zkit inspect`: what is in a store, how it is laid out, what is stored of it, and what could be better.
//!
//! The core opens and surveys the store; `facts` computes what follows from that; `json` and `text` say it; the rules of
//! `advice` judge it.

mod advice;
mod args;
mod command_line;
mod detail;
mod facts;
mod foreign;
mod json;
mod mount;
mod near;
mod probe;
#[cfg(test)]
mod tests;
mod text;

use zkit_cli::args::Format;
use zkit_cli::{Command, Exit, Shell};
use zkit_core::cancel::Cancel;
use zkit_core::engine::{ArraySurvey, SurveyDepth, survey};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Observer;
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::metadata::Defect;
use zkit_core::store::Store;

pub use args::InspectArgs;

use crate::args::Depth;
use crate::facts::{ArrayFacts, Inspection};

/// Stores of more arrays are listed only, unless the user says otherwise.
const HEADERS_ARRAYS_MOST: usize = 1_000;
/// Chunks whose head is read: of each of many arrays, and of the only one.
const HEADS_OF_MANY: usize = 64;
const HEADS_OF_ONE: usize = 4_096;

/// The command.
#[derive(Debug)]
pub struct Inspect;

impl Command for Inspect {
    const NAME: &'static str = "inspect";
    type Args = InspectArgs;

    fn run(args: &InspectArgs, shell: &Shell) -> anyhow::Result<Exit> {
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.stores.stall_timeout);
        if let Some(jobs) = args.resources.jobs {
            // fails only if the pool exists already, in which case its size stays
            let _ = rayon::ThreadPoolBuilder::new().num_threads(jobs.get()).build_global();
        }
        let hierarchy = Hierarchy::open(&args.store, &args.stores.store_options(shell)?)?;
        let inspection =
            inspect(&hierarchy, args, &Run { observer: shell.observer(), cancel: shell.cancel() })?;
        let advised = advice::advise(&inspection);
        // thousands of arrays: only the answer that was asked for is built
        if shell.format() == Format::Json {
            shell.emit(&zkit_report::Document::new(), &json::Output::new(&inspection, &advised))?;
        } else {
            shell.emit(&text::document(&inspection, advised), &())?;
        }
        let exit = if inspection.is_incomplete() { Exit::Incomplete } else { Exit::Done };
        // the process ends here: taking thousands of nodes apart would take as long as reading them
        std::mem::forget(inspection);
        std::mem::forget(hierarchy);
        Ok(exit)
    }
}

/// Who watches the work, and who stops it.
struct Run<'a> {
    observer: &'a dyn Observer,
    cancel: &'a Cancel,
}

/// Finds out all that the arguments ask for.
fn inspect<'a>(
    hierarchy: &'a Hierarchy,
    args: &InspectArgs,
    run: &Run<'_>,
) -> anyhow::Result<Inspection<'a>> {
    let arrays = select(hierarchy, args)?;
    let depth = depth_of(hierarchy, arrays.len(), args);
    let mut surveys = match &hierarchy.store {
        Some(store) => survey_all(store, &arrays, depth, run)?,
        None => Vec::new(),
    };
    let mut defects = hierarchy.defects.clone();
    for survey in surveys.iter_mut().flatten() {
        defects.append(&mut survey.defects);
    }
    let selected = arrays.len() < hierarchy.arrays.len() || !args.arrays.is_empty();
    if selected {
        defects.retain(|defect| concerns(defect, &arrays, args));
    }
    surveys.resize(arrays.len(), None);
    let facts = arrays
        .iter()
        .zip(surveys)
        .map(|(array, survey)| ArrayFacts::new(array, survey, args.access.as_ref()));
    let mut inspection = Inspection {
        hierarchy,
        depth,
        arrays: facts.collect(),
        selected,
        defects,
        access: args.access.clone(),
        mount: args.store.local_path().and_then(mount::of_path),
        probe: None,
    };
    if let (true, Some(store)) = (args.probe, &hierarchy.store) {
        let workers: Vec<u64> = args.workers.iter().map(|workers| workers.get()).collect();
        let memory_bytes = args.resources.memory_budget().bytes;
        inspection.probe = Some(probe::probe(store, &inspection.arrays, &workers, memory_bytes, run)?);
    }
    Ok(inspection)
}

/// Returns the arrays that the run is about; the error for one that is not there names those with similar names.
fn select<'a>(hierarchy: &'a Hierarchy, args: &InspectArgs) -> Result<Vec<&'a ArrayNode>, Error> {
    let filter = args.select.filter();
    match hierarchy.select(&args.arrays) {
        Ok(arrays) => Ok(arrays.into_iter().filter(|array| filter.takes(&array.path)).collect()),
        Err(error) if error.kind() == ErrorKind::Usage => {
            let paths: Vec<&str> = hierarchy.arrays.iter().map(|array| array.path.as_str()).collect();
            Err(near::with_hint(error, &args.arrays, &paths))
        }
        Err(error) => Err(error),
    }
}

/// Returns whether a defect is shown where some arrays were asked for: it lies on them, above them, or at what was named.
fn concerns(defect: &Defect, arrays: &[&ArrayNode], args: &InspectArgs) -> bool {
    let above = |path: &str| {
        defect.path == "/" || path == defect.path || path.starts_with(&format!("{}/", defect.path))
    };
    let named = args.arrays.iter().any(|name| {
        let path = format!("/{}", name.trim_matches('/'));
        defect.path == path || defect.path.starts_with(&format!("{}/", path.trim_end_matches('/')))
    });
    named || arrays.iter().any(|array| above(&array.path))
}

fn depth_of(hierarchy: &Hierarchy, arrays: usize, args: &InspectArgs) -> Depth {
    let default = match &hierarchy.store {
        Some(store) if store.is_remote() => Depth::Metadata,
        Some(_) if arrays > HEADERS_ARRAYS_MOST => Depth::Listing,
        Some(_) => Depth::Headers,
        None => Depth::Metadata,
    };
    let depth = args.depth.unwrap_or(default);
    // a probe needs to know which chunks there are, and its estimate the lanes
    if args.probe { depth.max(Depth::Headers) } else { depth }
}

fn survey_all(
    store: &Store,
    arrays: &[&ArrayNode],
    depth: Depth,
    run: &Run<'_>,
) -> anyhow::Result<Vec<Option<ArraySurvey>>> {
    let sample_most = if arrays.len() == 1 { HEADS_OF_ONE } else { HEADS_OF_MANY };
    let depth = match depth {
        Depth::Metadata => return Ok(Vec::new()),
        Depth::Listing => SurveyDepth::Listing { sample_most: 0 },
        Depth::Headers => SurveyDepth::Headers { sample_most },
    };
    let surveys =
        survey(store, arrays, depth, run.observer, run.cancel).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => error.with_hint("pass --depth metadata, which needs no listing"),
            _ => error,
        })?;
    Ok(surveys.into_iter().map(Some).collect())
}
