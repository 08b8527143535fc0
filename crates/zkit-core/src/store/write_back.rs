//! Bringing what was written to the disk early, while the cores work on what comes next, so that the sync before a
//! store is published finds little to do.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};

use rustix::fs::{CWD, Mode, OFlags};

/// A sync is begun each time so many bytes were written, unless one is still running.
const EVERY_BYTES: u64 = 64 << 20;

/// A thread that syncs the file system of a directory again and again; it ends with this value, and is not waited for.
///
/// It makes nothing durable that anyone relies on: whoever publishes must sync once more.
#[derive(Debug)]
pub(super) struct WriteBack {
    written_bytes: AtomicU64,
    /// Holds one request at most: those that come while a sync runs are one.
    requests: SyncSender<()>,
}

impl WriteBack {
    /// Starts the thread; `None` where there can be none, and the last sync has all to do.
    pub(super) fn start(directory: &Path) -> Option<Self> {
        // opened for itself: an error of writing back is told once to each open file, and the last sync must hear of it
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, directory, flags, Mode::empty()).ok()?;
        let (requests, taken) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("write-back".to_owned());
        thread.spawn(move || sync_each(&directory, &taken)).ok()?;
        Some(Self { written_bytes: AtomicU64::new(0), requests })
    }

    /// Counts bytes that were written, and asks for a sync when there are enough of them.
    pub(super) fn wrote(&self, bytes: u64) {
        let before = self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before / EVERY_BYTES != before.wrapping_add(bytes) / EVERY_BYTES {
            // full where a sync waits its turn already
            let _ = self.requests.try_send(());
        }
    }
}

/// Syncs for each request, until nobody can send one any more.
fn sync_each(directory: &OwnedFd, requests: &mpsc::Receiver<()>) {
    for () in requests {
        if rustix::fs::syncfs(directory).is_err() {
            // the last sync, through a file of its own, fails as well and says so
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_for_a_sync_each_time_enough_was_written_and_waits_for_none() {
        let (requests, taken) = mpsc::sync_channel(1);
        let write_back = WriteBack { written_bytes: AtomicU64::new(0), requests };
        let asked = |bytes| {
            write_back.wrote(bytes);
            taken.try_iter().count()
        };
        assert_eq!(asked(EVERY_BYTES - 1), 0);
        assert_eq!(asked(1), 1);
        assert_eq!(asked(EVERY_BYTES / 2), 0);
        assert_eq!(asked(3 * EVERY_BYTES), 1);
        // nobody syncs: what comes next is not held up
        (0..5).for_each(|_| write_back.wrote(EVERY_BYTES));
        assert_eq!(taken.try_iter().count(), 1);
    }

    #[test]
    fn the_thread_ends_with_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let directory = rustix::fs::openat(CWD, folder.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let (requests, taken) = mpsc::sync_channel(1);
        requests.try_send(()).unwrap();
        drop(requests);
        sync_each(&directory, &taken);
    }
}
