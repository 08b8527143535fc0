//! What lies in a cache.

use std::path::{Path, PathBuf};

use serde::Serialize;
use zkit_cli::cached::{EntryLock, Header, Mode, Places, State, entries};
use zkit_cli::{Exit, Shell};
use zkit_report::{Column, Document, Facts, Table, format};

use crate::{last_used, now};

/// The JSON of a list, version 1.
#[derive(Debug, Serialize)]
struct Output {
    schema_version: u32,
    cache: PathBuf,
    entries: Vec<EntryOutput>,
    /// Bytes of all stores.
    bytes: u64,
    /// What is no entry.
    foreign: Vec<PathBuf>,
}

/// One entry; what the manifest says is null where there is none that can be read.
#[derive(Debug, Serialize)]
struct EntryOutput {
    store: PathBuf,
    /// complete, building, unfinished (a run died) or damaged.
    state: &'static str,
    problem: Option<String>,
    /// Seconds since 1970.
    last_used: Option<u64>,
    #[serde(flatten)]
    header: Option<HeaderOutput>,
}

#[derive(Debug, Serialize)]
struct HeaderOutput {
    dataset: String,
    selection: String,
    created: u64,
    bytes: u64,
    objects: u64,
    sources: u64,
    zkit: String,
    options: Vec<(String, String)>,
}

/// Prints the entries of a cache, those used last first.
pub(crate) fn run(directory: &Path, shell: &Shell) -> anyhow::Result<Exit> {
    let found = entries(directory)?;
    let mut listed: Vec<EntryOutput> =
        found.entries.into_iter().map(|(places, state)| entry(&places, state)).collect();
    listed.sort_by_key(|entry| std::cmp::Reverse(entry.last_used));
    let bytes = listed.iter().flat_map(|entry| &entry.header);
    let bytes = bytes.fold(0, |sum: u64, header| sum.saturating_add(header.bytes));
    let output = Output {
        schema_version: 1,
        cache: directory.to_owned(),
        entries: listed,
        bytes,
        foreign: found.foreign,
    };
    shell.emit(&document(&output), &output)?;
    Ok(Exit::Done)
}

fn entry(places: &Places, state: State) -> EntryOutput {
    let (state, problem, header) = match state {
        _ if is_being_built(places) => ("building", None, None),
        State::Complete(header) => ("complete", None, Some(header)),
        State::Unfinished => ("unfinished", None, None),
        State::Damaged(problem) => ("damaged", Some(problem), None),
    };
    EntryOutput {
        store: places.store.clone(),
        state,
        problem,
        last_used: header.as_ref().map(|header| last_used(places, header)),
        header: header.map(|header| header_output(*header)),
    }
}

fn header_output(header: Header) -> HeaderOutput {
    let Header { dataset, selection, created, bytes, objects, sources, zkit, options, .. } = header;
    HeaderOutput { dataset, selection, created, bytes, objects, sources, zkit, options }
}

/// Returns whether another run has the entry for itself.
fn is_being_built(places: &Places) -> bool {
    places.lock.exists() && matches!(EntryLock::try_lock(places, Mode::Shared), Ok(None))
}

fn document(output: &Output) -> Document {
    let mut facts = Facts::new();
    facts.fact("cache", output.cache.display().to_string());
    let entries = format::counted(output.entries.len() as u64, "entry", "entries");
    facts.fact("holds", format!("{entries}, {}", format::bytes(output.bytes)));
    let mut table = Table::new([
        Column::left("store"),
        Column::left("state"),
        Column::right("size"),
        Column::left("made"),
        Column::left("last used"),
        Column::left("dataset"),
        Column::left("selection").wraps(),
    ]);
    let now = now();
    for entry in &output.entries {
        let ago =
            |time: Option<u64>| time.map_or_else(String::new, |time| format::ago(now.saturating_sub(time)));
        let header = entry.header.as_ref();
        let text = |of: fn(&HeaderOutput) -> String| header.map_or_else(String::new, of);
        table.row([
            name(&entry.store),
            entry
                .problem
                .as_ref()
                .map_or_else(|| entry.state.to_owned(), |why| format!("{}: {why}", entry.state)),
            text(|header| format::bytes(header.bytes)),
            ago(header.map(|header| header.created)),
            ago(entry.last_used),
            text(|header| header.dataset.clone()),
            text(|header| header.selection.clone()),
        ]);
    }
    let mut document = Document::new();
    document.facts(facts).table(table).table(foreign_table(&output.foreign));
    document
}

/// Returns a table of what is no entry.
pub(crate) fn foreign_table(foreign: &[PathBuf]) -> Table {
    let mut table = Table::new([Column::left("no entry of the cache")]);
    for path in foreign {
        table.row([name(path)]);
    }
    table
}

/// Returns the last part of a path.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
