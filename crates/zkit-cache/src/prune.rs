//! What of a cache can go, the least recently used first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use zkit_cli::cached::{EntryLock, Found, Mode as LockMode, Places, Removal, State, clear, entries, remove};
use zkit_cli::{Exit, Shell};
use zkit_core::error::Error;
use zkit_report::{Column, Document, Facts, Table, format};

use crate::list::{foreign_table, name};
use crate::{last_used, now};

/// What stays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes of all entries together.
    pub(crate) max_size: Option<u64>,
    /// Time since the last use.
    pub(crate) older_than: Option<Duration>,
}

/// Whether it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is only said what would go.
    Say,
    /// It goes.
    Remove,
}

/// The JSON of a pruning, version 1.
#[derive(Debug, Serialize)]
struct Output {
    schema_version: u32,
    cache: PathBuf,
    dry_run: bool,
    /// What goes, in this order.
    pruned: Vec<PrunedOutput>,
    /// Bytes of the stores that went, or would.
    bytes_pruned: u64,
    /// Bytes of the stores that stay.
    bytes_kept: u64,
    /// What is no entry, and is left alone.
    foreign: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct PrunedOutput {
    store: PathBuf,
    why: String,
    bytes: u64,
    /// removed, in-use (left alone), or would-be-removed.
    outcome: &'static str,
}

/// One thing that is to go.
struct Victim {
    places: Places,
    why: String,
    bytes: u64,
    part: Part,
}

/// How much of an entry goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All of it.
    Entry,
    /// What a run that died has left beside it.
    Leftovers,
}

/// Says what can go, and removes it if that is asked for.
pub(crate) fn run(directory: &Path, limits: Limits, mode: Mode, shell: &Shell) -> anyhow::Result<Exit> {
    let Found { entries: found, foreign } = entries(directory)?;
    let (victims, mut bytes_kept) = choose(found, limits, now());
    let mut pruned = Vec::with_capacity(victims.len());
    for victim in victims {
        shell.cancel().check()?;
        let outcome = prune(&victim, mode)?;
        if outcome == IN_USE {
            bytes_kept = bytes_kept.saturating_add(victim.bytes);
        }
        let Victim { places, why, bytes, .. } = victim;
        pruned.push(PrunedOutput { store: places.store, why, bytes, outcome });
    }
    let went = pruned.iter().filter(|pruned| pruned.outcome != IN_USE);
    let output = Output {
        schema_version: 1,
        cache: directory.to_owned(),
        dry_run: mode == Mode::Say,
        bytes_pruned: went.fold(0, |sum, pruned| sum.saturating_add(pruned.bytes)),
        bytes_kept,
        pruned,
        foreign,
    };
    shell.emit(&document(&output), &output)?;
    if mode == Mode::Say && !output.pruned.is_empty() {
        shell.hint("nothing was removed: pass --yes to remove them");
    }
    Ok(Exit::Done)
}

/// What became of an entry that another run uses.
const IN_USE: &str = "in-use";

/// Returns what goes, in order, and the bytes of entries that stay.
fn choose(found: Vec<(Places, State)>, limits: Limits, now: u64) -> (Vec<Victim>, u64) {
    let (mut victims, mut complete) = (Vec::new(), Vec::new());
    for (places, state) in found {
        let left = places.unfinished();
        match state {
            State::Complete(header) => {
                if !left.is_empty() {
                    let why = "a run that died has left it beside the entry".to_owned();
                    victims.push(Victim { places: places.clone(), why, bytes: 0, part: Part::Leftovers });
                }
                let used = last_used(&places, &header);
                complete.push((used, header.bytes, places));
            }
            State::Unfinished => {
                let why = "a run that died has left it".to_owned();
                victims.push(Victim { places, why, bytes: 0, part: Part::Entry });
            }
            // a store that stands beside a manifest which nobody can read may be anything
            State::Damaged(_) if places.store.symlink_metadata().is_ok() => {}
            State::Damaged(why) => victims.push(Victim { places, why, bytes: 0, part: Part::Entry }),
        }
    }
    complete.sort_by(|one, other| (one.0, &one.2.store).cmp(&(other.0, &other.2.store)));
    let mut bytes = complete.iter().fold(0, |sum: u64, (_, bytes, _)| sum.saturating_add(*bytes));
    for (used, size, places) in complete {
        let idle = Duration::from_secs(now.saturating_sub(used));
        let why = if limits.older_than.is_some_and(|older| idle > older) {
            format!("not used for {}", format::duration(idle))
        } else if let Some(most) = limits.max_size.filter(|most| bytes > *most) {
            format!("the cache holds more than {}, and others were used later", format::bytes(most))
        } else {
            continue;
        };
        bytes = bytes.saturating_sub(size);
        victims.push(Victim { places, why, bytes: size, part: Part::Entry });
    }
    (victims, bytes)
}

fn prune(victim: &Victim, mode: Mode) -> Result<&'static str, Error> {
    let places = &victim.places;
    if mode == Mode::Say {
        let is_free = !places.lock.exists() || EntryLock::try_lock(places, LockMode::Exclusive)?.is_some();
        return Ok(if is_free { "would-be-removed" } else { IN_USE });
    }
    let removal = match victim.part {
        Part::Entry => remove(places)?,
        Part::Leftovers => clear(places)?,
    };
    Ok(match removal {
        Removal::Removed => "removed",
        Removal::InUse => IN_USE,
    })
}

fn document(output: &Output) -> Document {
    let mut facts = Facts::new();
    facts.fact("cache", output.cache.display().to_string());
    let went = output.pruned.iter().filter(|pruned| pruned.outcome != IN_USE).count() as u64;
    let went =
        format!("{}, {}", format::counted(went, "entry", "entries"), format::bytes(output.bytes_pruned));
    facts.fact(if output.dry_run { "would remove" } else { "removed" }, went);
    facts.fact("keeps", format::bytes(output.bytes_kept));
    let mut table = Table::new([
        Column::left("store"),
        Column::right("size"),
        Column::left("outcome"),
        Column::left("why").wraps(),
    ]);
    for pruned in &output.pruned {
        let size = if pruned.bytes > 0 { format::bytes(pruned.bytes) } else { String::new() };
        table.row([name(&pruned.store), size, pruned.outcome.replace('-', " "), pruned.why.clone()]);
    }
    let mut document = Document::new();
    document.facts(facts).table(table).table(foreign_table(&output.foreign));
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use zkit_cli::cached::Header;

    const NOW: u64 = 1_000_000;

    fn entry(folder: &Path, number: u64, used: u64, bytes: u64) -> (Places, State) {
        let name = format!("a-{number:016x}.zarr");
        let header = Header {
            schema_version: 1,
            zkit: "0.1.0".to_owned(),
            name: name.clone(),
            key: String::new(),
            dataset: "a".to_owned(),
            selection: "all".to_owned(),
            options: Vec::new(),
            created: used,
            bytes,
            objects: 1,
            sources: 1,
            slices: Vec::new(),
            rest_xxh3: String::new(),
        };
        (Places::of(folder, &name), State::Complete(Box::new(header)))
    }

    fn chosen(
        found: Vec<(Places, State)>,
        max_size: Option<u64>,
        older_than: Option<u64>,
    ) -> (Vec<String>, u64) {
        let limits = Limits { max_size, older_than: older_than.map(Duration::from_secs) };
        let (victims, kept) = choose(found, limits, NOW);
        (victims.iter().map(|victim| name(&victim.places.store)).collect(), kept)
    }

    #[test]
    fn the_least_recently_used_go_until_the_rest_fits() {
        let folder = tempfile::tempdir().unwrap();
        let found = || {
            vec![
                entry(folder.path(), 1, NOW - 10, 100),
                entry(folder.path(), 2, NOW - 30, 100),
                entry(folder.path(), 3, NOW - 20, 100),
            ]
        };
        let names = |numbers: &[u64]| numbers.iter().map(|number| format!("a-{number:016x}.zarr")).collect();
        assert_eq!(chosen(found(), None, None), (vec![], 300));
        assert_eq!(chosen(found(), Some(300), None), (vec![], 300));
        assert_eq!(chosen(found(), Some(299), None), (names(&[2]), 200));
        assert_eq!(chosen(found(), Some(100), None), (names(&[2, 3]), 100));
        assert_eq!(chosen(found(), Some(1), None), (names(&[2, 3, 1]), 0));
        assert_eq!(chosen(found(), None, Some(15)), (names(&[2, 3]), 100));
        assert_eq!(chosen(found(), Some(100), Some(25)), (names(&[2, 3]), 100));
    }

    #[test]
    fn a_store_beside_an_unreadable_manifest_stays_and_a_manifest_alone_goes() {
        let folder = tempfile::tempdir().unwrap();
        let damaged = |number: u64| {
            (Places::of(folder.path(), &format!("a-{number:016x}.zarr")), State::Damaged("x".to_owned()))
        };
        let with_store = damaged(1);
        std::fs::create_dir(&with_store.0.store).unwrap();
        let (names, _) = chosen(vec![with_store, damaged(2)], Some(1), Some(1));
        assert_eq!(names, ["a-0000000000000002.zarr"]);
    }
}
