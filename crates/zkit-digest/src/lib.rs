//! `zkit digest`: the content digest of every array, whatever its chunks, codecs and Zarr version.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zkit_cli::args::{ResourceArgs, SelectArgs, StoreArgs};
use zkit_cli::traffic::TrafficOutput;
use zkit_cli::values::store_url;
use zkit_cli::{Command, Exit, Shell};
use zkit_core::engine::{self, Resources, Sparse};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::hierarchy::{ArrayNode, Hierarchy};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::Loss;
use zkit_report::{Column, Document, Facts, Table, format};

/// Digests the content of each array: SHA-256 over its decoded elements.
///
/// Equal data has equal digests whatever its chunks, codecs and Zarr version: elements in C order, little-endian,
/// NaN payloads kept, absent chunks as the fill value.
#[derive(Debug, Args)]
pub struct DigestArgs {
    /// Path or URL of the store.
    #[arg(value_parser = store_url())]
    store: StoreUrl,

    /// Paths of arrays, or of groups for all below them; everything where none is given.
    arrays: Vec<String>,

    /// Digest arrays of which little or nothing was ever written, too, however large.
    ///
    /// Without it, arrays of more than 64 MiB without any chunk are named and left out, and so are those with more than 256 GiB
    /// of fill values and less than one chunk in 16 stored: hours would go into fill values.
    #[arg(long)]
    unwritten: bool,

    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    access: StoreArgs,
}

/// Arrays without a single chunk are left out beyond this decoded size.
const LARGE_UNWRITTEN_BYTES: u64 = 64 << 20;

/// Bytes of fill values that are digested in a second, about: for estimates.
const HASHED_BYTES_PER_SECOND: u64 = 1 << 30;

/// The command.
#[derive(Debug)]
pub struct Digest;

/// The JSON output, version 1.
#[derive(Debug, Serialize)]
struct Output {
    schema_version: u32,
    store: String,
    complete: bool,
    #[serde(flatten)]
    traffic: TrafficOutput,
    arrays: Vec<ArrayOutput>,
}

#[derive(Debug, Serialize)]
struct ArrayOutput {
    path: String,
    shape: Option<Vec<u64>>,
    data_type: Option<String>,
    sha256: Option<String>,
    error: Option<String>,
}

impl Command for Digest {
    const NAME: &'static str = "digest";
    type Args = DigestArgs;

    fn run(args: &DigestArgs, shell: &Shell) -> anyhow::Result<Exit> {
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.access.stall_timeout);
        let hierarchy = Hierarchy::open(&args.store, &args.access.store_options(shell)?)?;
        let store = hierarchy.readable_store()?;
        let arrays = args.select.take(hierarchy.select(&args.arrays)?)?;
        let resources = Resources {
            memory_bytes: args.resources.memory_budget().bytes,
            jobs: args.resources.jobs().get(),
        };
        let (arrays, unwritten, sparse) = if args.unwritten {
            (arrays, Vec::new(), Vec::new())
        } else {
            let (written, unwritten) = engine::split_unwritten(store, arrays, LARGE_UNWRITTEN_BYTES)?;
            let (dense, sparse) = engine::split_sparse(store, written)?;
            (dense, unwritten, sparse)
        };
        let digests = engine::digest(store, &arrays, resources, shell.observer(), shell.cancel())?;
        shell.cancel().check()?;

        let mut exit = if hierarchy.unreadable { Exit::Incomplete } else { Exit::Done };
        let mut outputs: Vec<ArrayOutput> = Vec::with_capacity(arrays.len());
        for (array, digest) in arrays.iter().zip(digests) {
            exit = exit.worst(digest.as_ref().map_or_else(exit_of, |_| Exit::Done));
            outputs.push(ArrayOutput {
                path: array.path.clone(),
                shape: Some(array.metadata.shape().to_vec()),
                data_type: Some(array.metadata.data_type.to_string()),
                sha256: digest
                    .as_ref()
                    .ok()
                    .map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect()),
                error: digest.err().map(|error| error.one_line_with_hint()),
            });
        }
        let unwritten = unwritten.into_iter().map(|array| left_out(array, why_unwritten(array)));
        let sparse = sparse.iter().map(|sparse| left_out(sparse.array, why_sparse(sparse)));
        for output in unwritten.chain(sparse) {
            exit = exit.worst(Exit::Incomplete);
            outputs.push(output);
        }
        if args.arrays.is_empty() {
            exit = exit.worst(add_losses(&hierarchy, &mut outputs));
        }
        outputs.sort_by(|a, b| a.path.cmp(&b.path));
        let output = Output {
            schema_version: 1,
            store: hierarchy.url.clone(),
            complete: exit != Exit::Incomplete,
            traffic: TrafficOutput::of(&shell.observer().meter().traffic),
            arrays: outputs,
        };
        shell.emit(&document(&output), &output)?;
        Ok(exit)
    }
}

/// Returns why an array that holds nothing but fill values has no digest.
fn why_unwritten(array: &ArrayNode) -> String {
    let size = array.metadata.decoded_bytes().map_or_else(|| "too much to count".to_owned(), format::bytes);
    format!("no chunk was ever written: {size} of fill values; pass --unwritten to digest them")
}

/// Returns why an array of which little is stored has no digest, with what it would take.
fn why_sparse(sparse: &Sparse<'_>) -> String {
    let of_all = sparse
        .array
        .metadata
        .grid
        .total()
        .map_or_else(String::new, |total| format!(" of {}", format::counted(total, "chunk", "chunks")));
    let stored = match sparse.stored_chunks {
        Some(stored) => format!("{}{of_all} stored", format::count(stored)),
        None => format!("the store has no listing, and each{of_all} would have to be asked for"),
    };
    let takes = match sparse.fill_bytes {
        Some(bytes) => {
            let time = format::duration(Duration::from_secs(bytes / HASHED_BYTES_PER_SECOND));
            format!("{} of fill values would take about {time}", format::bytes(bytes))
        }
        None => "its fill values are too many to count".to_owned(),
    };
    format!("{stored}: {takes}; pass --unwritten to digest them")
}

/// Returns what is said of an array that is left out.
fn left_out(array: &ArrayNode, why: String) -> ArrayOutput {
    ArrayOutput {
        path: array.path.clone(),
        shape: Some(array.metadata.shape().to_vec()),
        data_type: Some(array.metadata.data_type.to_string()),
        sha256: None,
        error: Some(why),
    }
}

/// Corrupt bytes are a finding; what could not be read or decoded leaves the answer incomplete.
fn exit_of(error: &Error) -> Exit {
    match error.kind() {
        ErrorKind::Corrupt => Exit::Findings,
        kind => Exit::from(kind),
    }
}

/// Adds what of the store is not known: to the arrays that it concerns, else as entries without digest.
fn add_losses(hierarchy: &Hierarchy, outputs: &mut Vec<ArrayOutput>) -> Exit {
    let mut exit = Exit::Done;
    for defect in hierarchy.losses().filter(|defect| defect.loss != Loss::Unused) {
        exit = Exit::Findings;
        let error = format!("{} unknown: {}", defect.loss.describe(), defect.message);
        match outputs.iter_mut().find(|output| output.path == defect.path && output.error.is_none()) {
            Some(array) => array.error = Some(error),
            None => outputs.push(ArrayOutput {
                path: defect.path.clone(),
                shape: None,
                data_type: None,
                sha256: None,
                error: Some(error),
            }),
        }
    }
    exit
}

fn document(output: &Output) -> Document {
    let mut table = Table::new([
        Column::left("array"),
        Column::left("shape"),
        Column::left("data type"),
        Column::left("sha256").wraps(),
    ]);
    let mut failed = 0;
    for array in &output.arrays {
        let shape = array.shape.as_deref().map(format::shape).unwrap_or_default();
        let error = array.error.as_ref().map(|error| format!("error: {error}"));
        failed += u64::from(array.sha256.is_none());
        let digest = array.sha256.iter().chain(&error).cloned().collect::<Vec<_>>().join("; ");
        table.row([array.path.clone(), shape, array.data_type.clone().unwrap_or_default(), digest]);
    }
    let mut facts = Facts::new();
    facts.fact("store", &output.store);
    facts.fact("arrays", format::count(output.arrays.len() as u64));
    if failed > 0 {
        facts.fact("without digest", format::count(failed));
    }
    if let Some(traffic) = output.traffic.in_words() {
        facts.fact("network", traffic);
    }
    let mut document = Document::new();
    document.facts(facts).table(table);
    document
}
