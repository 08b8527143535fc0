//! `zkit compare`: whether two stores hold the same arrays, dimensions, attributes and values.

use clap::Args;
use serde::Serialize;
use zkit_cli::args::{ResourceArgs, SelectArgs, StoreArgs};
use zkit_cli::values::store_url;
use zkit_cli::{Command, Exit, Shell};
use zkit_core::engine::{self, Pair, Resources};
use zkit_core::error::{Error, ErrorKind};
use zkit_core::hierarchy::{ArrayNode, Difference, Hierarchy, differences};
use zkit_core::location::StoreUrl;
use zkit_core::metadata::{Defect, Loss};
use zkit_report::{Column, Document, Facts, Table, format};

/// Compares two stores: arrays, dimensions, attributes and values, bit by bit.
///
/// Chunks, codecs and Zarr version may differ; of attributes, those by which v2 and v3 say the same in other ways
/// (`_ARRAY_DIMENSIONS`, `_FillValue`). The first differing index of each array is named; exit code 1 if stores differ.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Path or URL of the one store.
    #[arg(value_parser = store_url())]
    left: StoreUrl,

    /// Path or URL of the other store.
    #[arg(value_parser = store_url())]
    right: StoreUrl,

    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    access: StoreArgs,
}

/// The command.
#[derive(Debug)]
pub struct Compare;

/// The JSON output, version 1.
#[derive(Debug, Serialize)]
struct Output {
    schema_version: u32,
    left: String,
    right: String,
    equal: bool,
    complete: bool,
    arrays_compared: usize,
    differences: Vec<DifferenceOutput>,
}

/// One way in which the stores differ, or could not be compared.
#[derive(Debug, Serialize)]
struct DifferenceOutput {
    /// The node's path.
    path: String,
    /// `missing`, `kind`, `shape`, `data-type`, `dimensions`, `attributes`, `values`, `error`.
    what: &'static str,
    /// What the one store has.
    left: Option<String>,
    /// What the other store has.
    right: Option<String>,
    /// The first differing element, in C order.
    index: Option<Vec<u64>>,
}

impl From<Difference> for DifferenceOutput {
    fn from(Difference { path, what, left, right }: Difference) -> Self {
        Self { path, what: what.name(), left, right, index: None }
    }
}

impl Command for Compare {
    const NAME: &'static str = "compare";
    type Args = CompareArgs;

    fn run(args: &CompareArgs, shell: &Shell) -> anyhow::Result<Exit> {
        shell.stop_after(args.resources.deadline);
        shell.watch_stalls(args.access.stall_timeout);
        let options = args.access.store_options(shell)?;
        let open = |url| -> Result<Hierarchy, Error> {
            let mut hierarchy = Hierarchy::open(url, &options)?;
            hierarchy.readable_store()?;
            hierarchy.look_beside()?;
            Ok(hierarchy)
        };
        let (left, right) = (open(&args.left)?, open(&args.right)?);
        let stores = (left.readable_store()?, right.readable_store()?);
        let filter = args.select.filter();
        let takes = |path: &str| filter.takes(path);
        let mut differences: Vec<_> =
            (differences(&left, &right, &takes).into_iter()).map(DifferenceOutput::from).collect();
        let pairs: Vec<Pair<'_>> = args
            .select
            .take(left.arrays.iter().collect())?
            .into_iter()
            .filter_map(|array| comparable(array, &right))
            .collect();
        let resources = Resources {
            memory_bytes: args.resources.memory_budget().bytes,
            jobs: args.resources.jobs().get(),
        };
        let results = engine::compare(stores, &pairs, resources, shell.observer(), shell.cancel())?;
        shell.cancel().check()?;

        let mut exit = if left.unreadable || right.unreadable { Exit::Incomplete } else { Exit::Done };
        for (pair, result) in pairs.iter().zip(results) {
            match result {
                Ok(None) => {}
                Ok(Some(difference)) => differences.push(DifferenceOutput {
                    path: pair.left.path.clone(),
                    what: "values",
                    left: Some(pair.left.metadata.data_type.show(&difference.left)),
                    right: Some(pair.left.metadata.data_type.show(&difference.right)),
                    index: Some(difference.index),
                }),
                Err(error) => {
                    // corrupt bytes are a finding; what cannot be read leaves the answer incomplete
                    exit = exit.worst(match error.kind() {
                        ErrorKind::Corrupt => Exit::Findings,
                        kind => Exit::from(kind),
                    });
                    differences.push(failure(&pair.left.path, &error));
                }
            }
        }
        for hierarchy in [&left, &right] {
            let concerns = |defect: &&Defect| filter.concerns(defect, &takes);
            let broken = hierarchy.losses().filter(|defect| defect.loss != Loss::Unused).filter(concerns);
            differences.extend(broken.map(|defect| DifferenceOutput {
                path: defect.path.clone(),
                what: "error",
                left: Some(format!("{}: {}", hierarchy.url, defect.message)),
                right: None,
                index: None,
            }));
        }
        differences.sort_by(|a, b| a.path.cmp(&b.path));
        let equal = differences.is_empty();
        let exit = exit.worst(if equal { Exit::Done } else { Exit::Findings });
        let output = Output {
            schema_version: 1,
            left: left.url.clone(),
            right: right.url.clone(),
            equal: equal && exit == Exit::Done,
            complete: exit != Exit::Incomplete,
            arrays_compared: pairs.len(),
            differences,
        };
        shell.emit(&document(&output), &output)?;
        Ok(exit)
    }
}

/// Returns the pair of an array and its namesake, if their values can be compared.
fn comparable<'a>(left: &'a ArrayNode, right: &'a Hierarchy) -> Option<Pair<'a>> {
    let right = right.array(&left.path)?;
    let alike = left.metadata.shape() == right.metadata.shape()
        && left.metadata.data_type == right.metadata.data_type;
    alike.then_some(Pair { left, right })
}

fn failure(path: &str, error: &Error) -> DifferenceOutput {
    DifferenceOutput {
        path: path.to_owned(),
        what: "error",
        left: Some(error.one_line_with_hint()),
        right: None,
        index: None,
    }
}

fn document(output: &Output) -> Document {
    let mut facts = Facts::new();
    facts.fact("left", &output.left);
    facts.fact("right", &output.right);
    facts.fact("arrays compared", format::count(output.arrays_compared as u64));
    let verdict = match (output.equal, output.complete) {
        (true, _) => "equal: arrays, dimensions, attributes and values".to_owned(),
        (false, true) => format::counted(output.differences.len() as u64, "difference", "differences"),
        (false, false) => "not all could be compared".to_owned(),
    };
    facts.fact("result", verdict);
    let mut table = Table::new([
        Column::left("node"),
        Column::left("differs in"),
        Column::left("at"),
        Column::left("left").wraps(),
        Column::left("right").wraps(),
    ]);
    for difference in &output.differences {
        let at = difference.index.as_ref().map(|index| format!("{index:?}")).unwrap_or_default();
        let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            difference.path.clone(),
            difference.what.to_owned(),
            at,
            text(&difference.left),
            text(&difference.right),
        ]);
    }
    let mut document = Document::new();
    document.facts(facts).table(table);
    document
}
