use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::*;
use crate::error::ErrorKind;

const BLOCK: u64 = 4096;

fn open(root: &Path, most_bytes: u64) -> ChunkCache {
    ChunkCache::open(root, most_bytes, |warning| panic!("{warning}")).unwrap()
}

fn reads(cache: &ChunkCache) -> CachedReads {
    CachedReads::new(cache.clone(), "s3://me:secret@bucket", "http://u:secret@host:9000")
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn meta(key: &str, tag: &str) -> ObjectMeta {
    let location = ObjectPath::parse(key).unwrap();
    ObjectMeta {
        location,
        last_modified: Default::default(),
        size: 9,
        e_tag: Some(tag.into()),
        version: None,
    }
}

fn keep(reads: &CachedReads, key: &str, tag: &str, body: &[u8]) {
    wait(reads.keep(None, &meta(key, tag), &Bytes::copy_from_slice(body)));
}

fn find(reads: &CachedReads, key: &str) -> Option<Candidate> {
    wait(reads.find(&ObjectPath::parse(key).unwrap(), None, 1 << 20))
}

fn body(reads: &CachedReads, key: &str) -> Option<Vec<u8>> {
    find(reads, key).map(|found| found.entry.body.to_vec())
}

/// Returns the files of all entries, and of what is being written.
fn files(root: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())).collect();
    files.sort_unstable();
    files
}

fn bytes_on_disk(root: &Path) -> u64 {
    let lengths = files(root).into_iter().filter_map(|path| Some(path.metadata().ok()?.len()));
    lengths.map(|length| length.div_ceil(BLOCK) * BLOCK).sum()
}

fn counted(root: &Path) -> u64 {
    let text = fs::read_to_string(root.join("count")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Makes the entry that was added last look as if it was used so long ago.
fn age(root: &Path, seconds: u64) {
    let newest = files(root).into_iter().max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    let time = SystemTime::now() - Duration::from_secs(seconds);
    File::open(newest.unwrap()).unwrap().set_modified(time).unwrap();
}

#[test]
fn what_is_kept_is_found_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a/chunks");
    keep(&reads(&open(&root, 1 << 20)), "a/0.0", "\"1\"", b"old");
    keep(&reads(&open(&root, 1 << 20)), "a/0.0", "\"2\"", b"newer");
    let cache = open(&root, 1 << 20);
    let found = find(&reads(&cache), "a/0.0").unwrap();
    assert_eq!((&found.entry.body[..], found.entry.header.etag.as_str()), (&b"newer"[..], "\"2\""));
    assert!(!found.is_current);
    assert!(find(&reads(&cache), "a/0.1").is_none());
    assert_eq!((files(&root).len(), counted(&root)), (1, BLOCK));
    assert_eq!(root.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!((reads(&cache).serve(found.entry).len(), cache.served_bytes()), (5, 5));
}

#[test]
fn a_listed_object_is_served_without_asking_only_whole_and_in_the_same_state() {
    let folder = tempfile::tempdir().unwrap();
    let reads = reads(&open(&folder.path().join("chunks"), 1 << 20));
    keep(&reads, "a/0.0", "\"1\"", b"whole");
    let range = GetRange::Bounded(0..2);
    wait(reads.keep(Some(&range), &meta("a/0.0", "\"1\""), &Bytes::from_static(b"wh")));
    // listings of Azure have no quotes
    reads.saw_listed(&meta("a/0.0", "1"));
    assert!(find(&reads, "a/0.0").unwrap().is_current);
    let part = wait(reads.find(&ObjectPath::parse("a/0.0").unwrap(), Some(&range), 10)).unwrap();
    assert!(!part.is_current);
    reads.saw_listed(&meta("a/0.0", "2"));
    assert!(!find(&reads, "a/0.0").unwrap().is_current);
}

#[test]
fn what_has_no_name_for_its_state_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("chunks");
    let reads = reads(&open(&root, 1 << 20));
    keep(&reads, "a/0.0", "W/\"1\"", b"weak");
    keep(&reads, "a/0.0", "", b"empty");
    let nameless = ObjectMeta { e_tag: None, ..meta("a/0.0", "") };
    wait(reads.keep(None, &nameless, &Bytes::from_static(b"none")));
    assert!(files(&root).is_empty());
}

#[test]
fn another_server_or_bucket_has_other_objects_and_no_secret_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("chunks");
    let cache = open(&root, 1 << 20);
    keep(&reads(&cache), "a/0.0", "\"1\"", b"mine");
    for (base, server) in [("s3://bucket", ""), ("s3://other", "http://host:9000")] {
        assert!(find(&CachedReads::new(cache.clone(), base, server), "a/0.0").is_none(), "{base} {server}");
    }
    assert!(find(&CachedReads::new(cache, "s3://bucket/", "http://host:9000"), "a/0.0").is_some());
    let text = fs::read(&files(&root)[0]).unwrap();
    assert!(!String::from_utf8_lossy(&text).contains("secret"));
}

#[test]
fn a_damaged_entry_is_none_and_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("chunks");
    let reads = reads(&open(&root, 1 << 20));
    keep(&reads, "a/0.0", "\"1\"", b"chunk");
    let path = files(&root).remove(0);
    let sound = fs::read(&path).unwrap();
    let mut flipped = sound.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&flipped[..], &sound[..sound.len() - 1], &[], b"zkit chunk 2 "] {
        fs::write(&path, damaged).unwrap();
        assert!(find(&reads, "a/0.0").is_none());
        keep(&reads, "a/0.0", "\"1\"", b"chunk");
        assert_eq!(body(&reads, "a/0.0").as_deref(), Some(&b"chunk"[..]));
    }
    // what grew or shrank behind its back is counted anew by the next eviction
    assert!(counted(&root) >= bytes_on_disk(&root));
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("chunks");
    let reads = reads(&open(&root, 10 * BLOCK));
    for number in 0..10 {
        keep(&reads, &format!("c/{number}"), "\"1\"", b"x");
        age(&root, 1000 - number);
    }
    assert_eq!((files(&root).len(), counted(&root)), (10, 10 * BLOCK));
    assert!(find(&reads, "c/0").is_some(), "now it was used last");
    keep(&reads, "c/10", "\"1\"", b"x");
    // a tenth is left free beside the new one
    let left: Vec<u64> = (0..11).filter(|number| find(&reads, &format!("c/{number}")).is_some()).collect();
    assert_eq!(left, [0, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!((bytes_on_disk(&root), counted(&root)), (9 * BLOCK, 9 * BLOCK));
}

#[test]
fn what_is_larger_than_the_cache_is_not_kept_and_drives_nothing_out() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("chunks");
    let reads = reads(&open(&root, 2 * BLOCK));
    keep(&reads, "c/0", "\"1\"", b"x");
    keep(&reads, "c/1", "\"1\"", &[0; 3 * 4096]);
    assert!(find(&reads, "c/0").is_some() && find(&reads, "c/1").is_none());
}

#[test]
fn what_killed_runs_left_goes_and_what_others_write_stays() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("chunks");
    let reads = reads(&open(&root, 4 * BLOCK));
    keep(&reads, "c/0", "\"1\"", b"x");
    let path = files(&root).remove(0);
    let beside = |name: &str| path.with_file_name(format!("{:030x}.{name}.new", 7));
    let (dead, alive) = (beside("dead"), beside("alive"));
    fs::write(&dead, [0; 4096]).unwrap();
    let living = File::create(&alive).unwrap();
    living.set_len(BLOCK).unwrap();
    living.lock().unwrap();
    let foreign = path.with_file_name("notes.txt");
    fs::write(&foreign, "mine").unwrap();
    // counts of runs that were killed are too high
    let text = fs::read_to_string(root.join("count")).unwrap();
    fs::write(root.join("count"), text.replacen("00000004096", "00000016384", 1)).unwrap();
    keep(&reads, "c/1", "\"1\"", b"x");
    assert!(!dead.exists() && alive.exists() && foreign.exists());
    assert!(find(&reads, "c/0").is_some() && find(&reads, "c/1").is_some(), "there was room for both");
    assert_eq!(counted(&root), 3 * BLOCK);
}

#[test]
fn a_count_that_is_damaged_or_from_before_the_machine_started_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("chunks");
    keep(&reads(&open(&root, 1 << 20)), "c/0", "\"1\"", b"x");
    for text in ["", "many", "00000000000000000000 of-another-start\n"] {
        fs::write(root.join("count"), text).unwrap();
        keep(&reads(&open(&root, 1 << 20)), "c/1", "\"1\"", b"x");
        assert_eq!(counted(&root), 2 * BLOCK, "{text}");
    }
}

#[test]
fn many_writers_stay_below_the_size_together() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("chunks");
    let most = 16 * BLOCK;
    let caches = [open(&root, most), open(&root, most)];
    let largest = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (reads, root) = (reads(&caches[writer % 2]), &root);
                scope.spawn(move || {
                    let seen = (0..40).map(|number| {
                        keep(&reads, &format!("c/{writer}.{number}"), "\"1\"", &[1; 3000]);
                        bytes_on_disk(root)
                    });
                    seen.max().unwrap()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).max().unwrap()
    });
    assert!(largest <= most && largest > most / 2, "{largest}");
    assert_eq!(counted(&root), bytes_on_disk(&root));
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path| ChunkCache::open(path, 1 << 20, |_| {}).unwrap_err().kind();
    fs::write(folder.path().join("thesis.tex"), "").unwrap();
    assert_eq!(refused(folder.path()), ErrorKind::Usage);
    assert_eq!(refused(&folder.path().join("thesis.tex")), ErrorKind::Usage);
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
    assert_eq!(refused(&other), ErrorKind::Usage);
}

#[test]
fn a_folder_that_goes_away_is_a_warning_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("chunks");
    let (said, heard) = crossbeam_channel::unbounded();
    let cache = ChunkCache::open(&root, 1 << 20, move |warning| said.send(warning).unwrap()).unwrap();
    fs::remove_dir_all(&root).unwrap();
    for number in 0..3 {
        keep(&reads(&cache), &format!("c/{number}"), "\"1\"", b"x");
    }
    let warnings: Vec<String> = heard.try_iter().collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("could not keep chunks in "), "{warnings:?}");
}
