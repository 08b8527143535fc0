//! Runs to one destination, killed at every step.

use std::path::{Path, PathBuf};

use super::super::{Existing, Start, Unfinished};
use super::LocalPartial;
use super::commit::{place, remove_replaced, set_aside};
use crate::cancel::Cancel;
use crate::engine::{Header, JournalArray, ObjectDigest, Record};
use crate::error::{Error, ErrorKind};

/// A folder with a destination in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One with a store that is to be replaced.
    fn with_old_store() -> Self {
        let place = Self::new();
        std::fs::create_dir(place.destination()).unwrap();
        std::fs::write(place.destination().join(".zgroup"), b"old").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn destination(&self) -> PathBuf {
        self.path("a.zarr")
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn start(&self, existing: Existing, unfinished: Unfinished) -> Result<Start<LocalPartial>, Error> {
        LocalPartial::create(&self.destination(), existing, &header(), unfinished)
    }

    fn build(&self, existing: Existing, unfinished: Unfinished) -> LocalPartial {
        built(self.start(existing, unfinished).unwrap())
    }

    /// Returns a whole store that lacks only its commit.
    fn finished(&self, existing: Existing) -> LocalPartial {
        let store = self.build(existing, Unfinished::Refuse);
        write_chunk(&store, 0, b"chunk");
        store.writer().replace("zarr.json", b"new").unwrap();
        store
    }

    fn resume(&self) -> LocalPartial {
        let mut store = self.build(Existing::Replace, Unfinished::Resume);
        assert!(store.is_resumed());
        store.check(&key_of, 1, &Cancel::default()).unwrap();
        store
    }

    fn assert_new_alone(&self) {
        assert_eq!(self.names(), ["a.zarr"]);
        assert_eq!(std::fs::read(self.destination().join("zarr.json")).unwrap(), b"new");
        assert_eq!(std::fs::read(self.destination().join(key_of(0, 0))).unwrap(), b"chunk");
        assert!(!self.destination().join(".zgroup").exists());
    }

    fn assert_old(&self) {
        assert_eq!(std::fs::read(self.destination().join(".zgroup")).unwrap(), b"old");
    }
}

fn header() -> Header {
    let array = JournalArray {
        path: "/t2m".to_owned(),
        fingerprint: 7,
        source_document: "{}".to_owned(),
        target_codec: "first".to_owned(),
    };
    Header {
        options: vec![("--chunks".to_owned(), "time=-1".to_owned())],
        source: "file:///source.zarr".to_owned(),
        groups: String::new(),
        arrays: vec![array],
    }
}

fn key_of(_array: u32, chunk: u64) -> String {
    format!("t2m/c/{chunk}")
}

fn write_chunk(store: &LocalPartial, chunk: u64, bytes: &[u8]) {
    store.writer().replace(&key_of(0, chunk), bytes).unwrap();
    let object = Some(ObjectDigest::of(bytes));
    store.journal().append(&[Record { array: 0, chunk, object, decoded_xxh3: 0 }]).unwrap();
}

fn built(start: Start<LocalPartial>) -> LocalPartial {
    match start {
        Start::Build(store) => *store,
        other => panic!("{other:?}"),
    }
}

/// Ends a run as kill -9 does: nothing is cleared, the kernel frees the lock.
fn kill(store: LocalPartial) {
    store.keep.store(true, std::sync::atomic::Ordering::Relaxed);
}

fn assert_conflict(start: Result<Start<LocalPartial>, Error>, text: &str, hint: &str) {
    let error = start.expect_err("it must be refused");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains(text), "{error}");
    assert!(error.hint().unwrap_or_default().contains(hint), "{:?}", error.hint());
}

#[test]
fn nothing_is_published_before_the_commit_or_after_a_drop() {
    let place = Place::new();
    let store = place.build(Existing::Keep, Unfinished::Refuse);
    store.writer().put("zarr.json", b"{}").unwrap();
    assert!(!place.destination().exists() && !store.is_worth_resuming());
    drop(store);
    assert!(place.names().is_empty());
    place.finished(Existing::Keep).commit().unwrap();
    place.assert_new_alone();
}

#[test]
fn two_runs_at_once_are_told_apart() {
    let place = Place::new();
    let _first = place.build(Existing::Keep, Unfinished::Refuse);
    for unfinished in [Unfinished::Refuse, Unfinished::Discard, Unfinished::Resume] {
        assert_conflict(place.start(Existing::Keep, unfinished), "another run is writing", "wait for it");
    }
}

#[test]
fn a_run_that_recorded_nothing_is_cleared() {
    for unfinished in [Unfinished::Refuse, Unfinished::Resume] {
        let place = Place::new();
        let store = place.build(Existing::Keep, Unfinished::Refuse);
        store.writer().put("half", b"x").unwrap();
        kill(store);
        let store = place.build(Existing::Keep, unfinished);
        assert!(!store.is_resumed() && !store.writer().root().join("half").exists());
    }
}

#[test]
fn a_run_that_recorded_something_is_gone_on_with_only_on_request() {
    let place = Place::new();
    drop(place.finished(Existing::Keep));
    assert_eq!(place.names(), ["a.zarr.partial", "a.zarr.partial.journal"]);
    let refused = place.start(Existing::Keep, Unfinished::Refuse);
    assert_conflict(refused, "did not end", "--resume to go on with it, or --restart");
    let store = place.resume();
    assert!(store.done()[0].iter().eq([0]));
    drop(store);
    let store = place.build(Existing::Keep, Unfinished::Discard);
    assert!(!store.writer().root().join("zarr.json").exists() && store.journal().records() == 0);
    drop(store);
    assert!(place.names().is_empty());
}

#[test]
fn what_others_put_in_the_way_stays() {
    let place = Place::new();
    std::fs::create_dir(place.path("a.zarr.partial")).unwrap();
    drop(place.build(Existing::Keep, Unfinished::Refuse));
    std::fs::create_dir(place.path("a.zarr.partial")).unwrap();
    std::fs::write(place.path("a.zarr.partial/mine"), b"x").unwrap();
    for journal in [None, Some("zkit-jour"), Some("the user's notes\n")] {
        if let Some(text) = journal {
            std::fs::write(place.path("a.zarr.partial.journal"), text).unwrap();
        }
        for unfinished in [Unfinished::Refuse, Unfinished::Discard, Unfinished::Resume] {
            assert_conflict(place.start(Existing::Keep, unfinished), "was not left by zkit", "remove it");
        }
    }
    assert!(place.path("a.zarr.partial/mine").exists());
    assert!(std::fs::read(place.path("a.zarr.partial.journal")).unwrap().starts_with(b"the user"));
}

#[test]
fn another_job_is_not_gone_on_with_and_its_difference_is_named() {
    let place = Place::new();
    drop(place.finished(Existing::Keep));
    let start = |change: &dyn Fn(&mut Header)| {
        let mut header = header();
        change(&mut header);
        LocalPartial::create(&place.destination(), Existing::Keep, &header, Unfinished::Resume)
    };
    let chunks = start(&|header| header.options[0].1 = "time=1".to_owned());
    assert_conflict(chunks, "`--chunks` was `time=-1`, is `time=1`", "--restart");
    let objects = start(&|header| header.arrays[0].fingerprint = 8);
    assert_conflict(objects, "the objects of `/t2m` changed", "--restart");
    let store = built(start(&|header| header.arrays[0].target_codec = "second".to_owned()).unwrap());
    assert_eq!(store.header().arrays[0].target_codec, "first");
}

#[test]
fn a_damaged_journal_is_refused_until_a_restart() {
    let place = Place::new();
    drop(place.finished(Existing::Keep));
    let journal = place.path("a.zarr.partial.journal");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    for unfinished in [Unfinished::Refuse, Unfinished::Resume] {
        let error = place.start(Existing::Keep, unfinished).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.hint().unwrap().contains("--restart"));
    }
    let store = place.build(Existing::Keep, Unfinished::Discard);
    assert!(!store.writer().root().join("zarr.json").exists());
}

#[test]
fn a_torn_record_and_a_damaged_object_are_done_anew() {
    let place = Place::new();
    let store = place.finished(Existing::Keep);
    write_chunk(&store, 1, b"chunk 1");
    write_chunk(&store, 2, b"chunk 2");
    store.writer().put(&key_of(0, 3), b"ha").unwrap();
    kill(store);
    let journal = place.path("a.zarr.partial.journal");
    let bytes = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &bytes[..bytes.len() - 5]).unwrap();
    std::fs::write(place.path("a.zarr.partial").join(key_of(0, 1)), b"chunk X").unwrap();

    let store = place.resume();
    assert!(store.done()[0].iter().eq([0]));
    for (chunk, bytes) in [(1, "chunk 1"), (2, "chunk 2"), (3, "half no more")] {
        write_chunk(&store, chunk, bytes.as_bytes());
    }
    drop(store);
    let store = place.resume();
    assert!(store.done()[0].iter().eq(0..4));
    store.commit().unwrap();
    place.assert_new_alone();
    assert_eq!(std::fs::read(place.destination().join(key_of(0, 3))).unwrap(), b"half no more");
}

#[test]
fn resume_without_anything_unfinished_begins_or_leaves_the_choice() {
    let place = Place::new();
    assert!(!place.build(Existing::Keep, Unfinished::Resume).is_resumed());
    let place = Place::with_old_store();
    for existing in [Existing::Keep, Existing::Replace] {
        let start = place.start(existing, Unfinished::Resume).unwrap();
        assert!(matches!(start, Start::Exists), "{start:?}");
    }
    kill(place.build(Existing::Replace, Unfinished::Refuse));
    assert!(matches!(place.start(Existing::Keep, Unfinished::Resume).unwrap(), Start::Exists));
    assert_eq!(place.names(), ["a.zarr"]);
}

#[test]
fn an_existing_destination_is_kept_or_exchanged() {
    let place = Place::new();
    std::fs::create_dir(place.destination()).unwrap();
    std::fs::write(place.destination().join("thesis"), b"x").unwrap();
    assert_conflict(
        place.start(Existing::Replace, Unfinished::Refuse),
        "no Zarr store",
        "name a store in it",
    );
    let place = Place::with_old_store();
    assert_conflict(place.start(Existing::Keep, Unfinished::Refuse), "already exists", "--overwrite");
    assert_eq!(place.names(), ["a.zarr"]);
    let store = place.finished(Existing::Replace);
    place.assert_old();
    store.commit().unwrap();
    place.assert_new_alone();
}

#[test]
fn a_commit_onto_an_occupied_destination_leaves_both_as_they_are() {
    let place = Place::new();
    let store = place.finished(Existing::Keep);
    std::fs::create_dir(place.destination()).unwrap();
    let error = store.commit().unwrap_err();
    drop(store);
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(std::fs::read_dir(place.destination()).unwrap().count(), 0);
    assert_eq!(place.names(), ["a.zarr", "a.zarr.partial", "a.zarr.partial.journal"]);
    std::fs::remove_dir(place.destination()).unwrap();
    place.resume().commit().unwrap();
    place.assert_new_alone();
}

/// The names of what a kill leaves, and what the next run makes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum After {
    Resumed,
    Published,
}

/// Kills a commit after `steps`, and lets runs of all three kinds find what is left.
fn kill_after(place: impl Fn() -> Place, steps: impl Fn(&LocalPartial), after: After) {
    for unfinished in [Unfinished::Resume, Unfinished::Refuse, Unfinished::Discard] {
        let place = place();
        let had_store = place.destination().exists();
        let store = place.finished(Existing::Replace);
        steps(&store);
        kill(store);
        let start = place.start(Existing::Replace, unfinished);
        match (unfinished, after) {
            (Unfinished::Discard, _) => {
                let store = built(start.unwrap());
                assert!(!store.is_resumed() && !store.writer().root().join("zarr.json").exists());
                drop(store);
                match after {
                    After::Published => place.assert_new_alone(),
                    After::Resumed if had_store => place.assert_old(),
                    After::Resumed => assert!(place.names().is_empty()),
                }
            }
            (_, After::Published) => {
                assert!(matches!(start.unwrap(), Start::AlreadyPublished));
                place.assert_new_alone();
            }
            (Unfinished::Refuse, After::Resumed) => {
                assert_conflict(start, "did not end", "--resume");
                if had_store {
                    place.assert_old();
                }
            }
            (Unfinished::Resume, After::Resumed) => {
                let mut store = built(start.unwrap());
                store.check(&key_of, 1, &Cancel::default()).unwrap();
                assert!(store.done()[0].iter().eq([0]));
                if had_store {
                    place.assert_old();
                }
                store.commit().unwrap();
                place.assert_new_alone();
            }
        }
    }
}

fn mark(store: &LocalPartial) {
    store.prepare().unwrap();
}

fn exchange_by_hand(store: &LocalPartial) {
    let (new, old) = (&store.places.partial, &store.places.destination);
    let current = rustix::fs::CWD;
    rustix::fs::renameat_with(current, new, current, old, rustix::fs::RenameFlags::EXCHANGE).unwrap();
}

#[test]
fn a_kill_at_any_step_of_a_first_publication_loses_nothing() {
    kill_after(Place::new, |_| (), After::Resumed);
    kill_after(Place::new, mark, After::Resumed);
    let placed = |store: &LocalPartial| {
        store.prepare().unwrap();
        place(&store.places).unwrap();
    };
    kill_after(Place::new, placed, After::Published);
}

#[test]
fn a_kill_at_any_step_of_an_exchange_loses_nothing() {
    let old = Place::with_old_store;
    kill_after(old, mark, After::Resumed);
    let exchanged = |store: &LocalPartial| {
        store.prepare().unwrap();
        exchange_by_hand(store);
    };
    kill_after(old, exchanged, After::Published);
    let half_removed = |store: &LocalPartial| {
        exchanged(store);
        std::fs::remove_file(store.places.partial.join(".zgroup")).unwrap();
    };
    kill_after(old, half_removed, After::Published);
    let removed = |store: &LocalPartial| {
        let mark = store.prepare().unwrap();
        exchange_by_hand(store);
        remove_replaced(&store.places, mark).unwrap();
    };
    kill_after(old, removed, After::Published);
}

#[test]
fn a_kill_at_any_step_of_two_renames_loses_nothing() {
    let old = Place::with_old_store;
    let aside = |store: &LocalPartial| {
        store.prepare().unwrap();
        set_aside(&store.places).unwrap();
    };
    kill_after(old, aside, After::Resumed);
    let placed = |store: &LocalPartial| {
        aside(store);
        place(&store.places).unwrap();
    };
    kill_after(old, placed, After::Published);
    let removed = |store: &LocalPartial| {
        let mark = store.prepare().unwrap();
        set_aside(&store.places).unwrap();
        place(&store.places).unwrap();
        remove_replaced(&store.places, mark).unwrap();
    };
    kill_after(old, removed, After::Published);
}

#[test]
fn the_replaced_store_is_never_taken_for_the_new_one() {
    let place = Place::with_old_store();
    let store = place.finished(Existing::Replace);
    store.prepare().unwrap();
    exchange_by_hand(&store);
    kill(store);
    // the user moves the new store away before the next run
    std::fs::rename(place.destination(), place.path("moved")).unwrap();
    for unfinished in [Unfinished::Refuse, Unfinished::Discard, Unfinished::Resume] {
        assert_conflict(place.start(Existing::Keep, unfinished), "was to be replaced", "yourself");
    }
    assert_eq!(std::fs::read(place.path("a.zarr.partial/.zgroup")).unwrap(), b"old");
}

#[test]
fn a_published_store_of_another_job_does_not_count_as_done() {
    let place = Place::new();
    let store = place.finished(Existing::Keep);
    store.prepare().unwrap();
    super::commit::place(&store.places).unwrap();
    kill(store);
    let mut other = header();
    other.options.clear();
    let start = LocalPartial::create(&place.destination(), Existing::Keep, &other, Unfinished::Refuse);
    assert_conflict(start, "already exists", "--overwrite");
    place.assert_new_alone();
}

#[test]
fn a_partial_store_that_was_removed_is_begun_anew() {
    let place = Place::new();
    drop(place.finished(Existing::Keep));
    std::fs::remove_dir_all(place.path("a.zarr.partial")).unwrap();
    assert!(!place.build(Existing::Keep, Unfinished::Refuse).is_resumed());
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    // sysfs takes no files, not even root's
    let start =
        LocalPartial::create(Path::new("/sys/kernel/a.zarr"), Existing::Keep, &header(), Unfinished::Refuse);
    let error = start.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unwritable, "{error}");
    assert!(error.to_string().contains("/sys/kernel/a.zarr.partial.journal"), "{error}");
    assert!(error.hint().unwrap().contains("may write to"));
}

#[test]
fn a_link_to_a_store_is_not_replaced_even_with_a_slash_behind_it() {
    let place = Place::with_old_store();
    std::os::unix::fs::symlink(place.destination(), place.path("link")).unwrap();
    let slash = place.path("link/");
    let start = LocalPartial::create(&slash, Existing::Replace, &header(), Unfinished::Refuse);
    assert_conflict(start, "is not a directory", "remove it yourself");
    place.assert_old();
}

#[test]
fn a_mount_point_is_no_destination() {
    let start = LocalPartial::create(Path::new("/proc"), Existing::Replace, &header(), Unfinished::Refuse);
    let error = start.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    assert!(error.to_string().contains("/proc is a mount point"), "{error}");
}
