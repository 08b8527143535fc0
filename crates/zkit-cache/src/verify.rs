//! Whether the stores of a cache hold what was written.

use std::path::{Path, PathBuf};

use serde::Serialize;
use zkit_cli::cached::{
    CacheCheckArg, EntryLock, Finding, Manifest, Mode, Places, State, check_result, entries,
};
use zkit_cli::{Exit, Shell};
use zkit_core::cancel::Cancel;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Event;
use zkit_report::{Column, Document, Facts, Table, format};

use crate::list::{foreign_table, name};

/// Findings of one entry that people are told of; programs get them all.
const SHOWN_MOST: usize = 20;

/// The JSON of a verification, version 1.
#[derive(Debug, Serialize)]
struct Output {
    schema_version: u32,
    cache: PathBuf,
    /// Whether every entry was looked at.
    complete: bool,
    entries: Vec<EntryOutput>,
    /// What is no entry, and was not looked at.
    foreign: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct EntryOutput {
    store: PathBuf,
    /// sound, damaged, unfinished (a run died), in-use (another run builds it) or unreadable.
    state: &'static str,
    objects_read: u64,
    findings: Vec<Finding>,
}

/// Reads back every object of every entry.
pub(crate) fn run(directory: &Path, shell: &Shell) -> anyhow::Result<Exit> {
    let found = entries(directory)?;
    shell.observer().event(Event::Phase("verifying"));
    let verified = found.entries.iter().map(|(places, state)| verify(places, state, shell.cancel()));
    let verified = verified.collect::<Result<Vec<_>, Error>>()?;
    let is = |state: &str| verified.iter().any(|entry| entry.state == state);
    let exit = match (is("unreadable"), is("damaged")) {
        (true, _) => Exit::Incomplete,
        (false, true) => Exit::Findings,
        (false, false) => Exit::Done,
    };
    let output = Output {
        schema_version: 1,
        cache: directory.to_owned(),
        complete: exit != Exit::Incomplete,
        entries: verified,
        foreign: found.foreign,
    };
    shell.emit(&document(&output), &output)?;
    Ok(exit)
}

/// Verifies one entry, which nobody removes meanwhile.
///
/// Errors: `Cancelled`.
fn verify(places: &Places, state: &State, cancel: &Cancel) -> Result<EntryOutput, Error> {
    let output = |state, objects_read, findings| {
        Ok(EntryOutput { store: places.store.clone(), state, objects_read, findings })
    };
    let manifest_finding = |what: String| vec![Finding { key: name(&places.manifest), what }];
    match state {
        State::Complete(_) => {}
        State::Unfinished => return output("unfinished", 0, Vec::new()),
        State::Damaged(why) => return output("damaged", 0, manifest_finding(why.clone())),
    }
    let Some(_lock) = EntryLock::try_lock(places, Mode::Shared)? else {
        return output("in-use", 0, Vec::new());
    };
    let manifest = match Manifest::read(places) {
        Ok(manifest) => manifest,
        Err(error) => return output("damaged", 0, manifest_finding(error.one_line())),
    };
    match check_result(&places.store, &manifest.result, CacheCheckArg::Full, cancel) {
        Ok((findings, read)) if findings.is_empty() => output("sound", read, findings),
        Ok((findings, read)) => output("damaged", read, findings),
        Err(error) if error.kind() == ErrorKind::Cancelled => Err(error),
        Err(error) => output("unreadable", 0, manifest_finding(error.one_line())),
    }
}

fn document(output: &Output) -> Document {
    let mut facts = Facts::new();
    facts.fact("cache", output.cache.display().to_string());
    let sound = output.entries.iter().filter(|entry| entry.state == "sound").count() as u64;
    let all = format::counted(output.entries.len() as u64, "entry", "entries");
    facts.fact("sound", format!("{} of {all}", format::count(sound)));
    let mut table =
        Table::new([Column::left("store"), Column::left("state"), Column::right("objects read back")]);
    let mut findings =
        Table::new([Column::left("store"), Column::left("object"), Column::left("what is wrong").wraps()]);
    for entry in &output.entries {
        table.row([name(&entry.store), entry.state.to_owned(), format::count(entry.objects_read)]);
        for finding in entry.findings.iter().take(SHOWN_MOST) {
            findings.row([name(&entry.store), finding.key.clone(), finding.what.clone()]);
        }
        if entry.findings.len() > SHOWN_MOST {
            let more = format!("and {} more", entry.findings.len() - SHOWN_MOST);
            findings.row([name(&entry.store), String::new(), more]);
        }
    }
    let mut document = Document::new();
    document.facts(facts).table(table).table(findings).table(foreign_table(&output.foreign));
    document
}
