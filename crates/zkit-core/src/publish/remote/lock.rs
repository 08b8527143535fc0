//! The lock of a destination in an object store: one object that its owner rewrites every few seconds.
//!
//! Clocks of machines differ, so none is compared: whoever finds the lock of another run watches it for as long as an owner
//! may stay silent, and takes it over, by a conditional write, only if it did not change. An owner that could not rewrite it
//! in time begins no further write until it has.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::super::leftover::Holder;
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Conditional, RemoteStore, RemoteWriter, Version};

pub(super) const LOCK_KEY: &str = "lock";
/// How often the owner rewrites the lock.
const BEAT: Duration = Duration::from_secs(5);
/// An owner that was silent for so long is dead.
const SILENCE: Duration = Duration::from_secs(24);
/// An owner begins no write so long after it last rewrote the lock: those on their way have the rest to arrive.
pub(super) const TRUST: Duration = Duration::from_secs(12);
/// How long one rewrite may take, with all its tries.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often the lock of another run is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How often the owner looks whether there is something to do; so soon after a rewrite that failed it tries again.
const TICK: Duration = Duration::from_secs(1);
/// A lock is a few hundred bytes.
const LOCK_BYTES_MOST: u64 = 64 << 10;

/// Who holds a lock: its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    /// What tells one run from all others.
    run: String,
    /// The machine since it was started, and the namespace of its process numbers; empty where it is not known.
    machine: String,
    /// The process, and when it was started, in the kernel's own unit.
    process: u32,
    started: u64,
    /// Grows with every rewrite.
    beat: u64,
}

impl Owner {
    fn of_this_run(run: &str) -> Self {
        let process = std::process::id();
        let started = started(process).unwrap_or(0);
        Self { run: run.to_owned(), machine: machine().unwrap_or_default(), process, started, beat: 0 }
    }

    fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).expect("strings and numbers are always JSON").into()
    }

    /// Returns whether the owner is a process of this machine that has ended: then nobody has to wait for its silence.
    fn has_ended(&self) -> bool {
        let here = machine().is_some_and(|machine| machine == self.machine);
        here && self.started != 0 && started(self.process) != Some(self.started)
    }
}

/// Returns what tells this machine, since it was started, from others, and its containers from each other.
fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), processes.display()))
}

/// Returns when a process was started, in clock ticks since the machine was; `None` if there is none of this number.
fn started(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // the name of the program may hold spaces and brackets; fields are counted from behind it
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // a process that was killed and not yet waited for has ended
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Returns a name that nothing else has; later names sort behind earlier ones.
pub fn unique_name() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let random = || RandomState::new().build_hasher().finish();
    format!("{:013}-{:016x}{:016x}", now.as_millis(), random(), random())
}

/// Returns who holds the lock below `store`'s prefix; it is not watched, nor changed.
///
/// One that cannot be read is held by nobody that is known.
pub(super) fn holder(store: &RemoteStore) -> Result<Holder> {
    let Some((found, _)) = store.get_version_blocking(LOCK_KEY, LOCK_BYTES_MOST)? else {
        return Ok(Holder::Nobody);
    };
    Ok(match serde_json::from_slice::<Owner>(&found) {
        Ok(owner) if owner.has_ended() => Holder::Nobody,
        Ok(owner) if machine().is_some_and(|machine| machine == owner.machine) => Holder::Running,
        _ => Holder::Elsewhere,
    })
}

/// A lock that this run holds, and a thread that keeps it until it is released.
#[derive(Debug)]
pub(super) struct Lock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: RemoteStore,
    run: String,
    state: Mutex<State>,
    changed: Condvar,
    /// Held while the lock is rewritten, so that it is rewritten once at a time.
    rewriting: Mutex<()>,
}

struct State {
    owner: Owner,
    version: Version,
    lost: bool,
    released: bool,
    /// Whether the thread that keeps the lock has ended.
    ended: bool,
    /// What may write while the lock is held, and what is to be done now and then.
    guarded: Option<(RemoteWriter, Box<dyn Fn() + Send + Sync>)>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("owner", &self.owner).field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Lock {
    /// Takes the lock below `store`'s prefix, that of a dead run too; `waits` is called before another's is watched.
    ///
    /// Errors: `Conflict` if another run holds it; `Cancelled`.
    pub(super) fn acquire(store: &RemoteStore, run: &str, cancel: &Cancel, waits: &dyn Fn()) -> Result<Self> {
        let owner = Owner::of_this_run(run);
        loop {
            cancel.check()?;
            // looked at first: there are servers that write in any case
            let Some((found, version)) = store.get_version_blocking(LOCK_KEY, LOCK_BYTES_MOST)? else {
                if let Conditional::Written(version) = store.create_blocking(LOCK_KEY, owner.to_bytes())? {
                    return Ok(Self::held(store, owner, version));
                }
                continue;
            };
            let other: Owner = serde_json::from_slice(&found).map_err(|error| {
                let message =
                    format!("`{LOCK_KEY}` in {} is in the way, and was not left by zkit", store.place());
                Error::new(ErrorKind::Conflict, message)
                    .with_source(error)
                    .with_hint("remove it yourself, or name another destination")
            })?;
            if !other.has_ended() {
                waits();
                watch(store, &version, cancel)?;
            }
            if let Conditional::Written(version) =
                store.update_blocking(LOCK_KEY, owner.to_bytes(), &version)?
            {
                return Ok(Self::held(store, owner, version));
            }
        }
    }

    fn held(store: &RemoteStore, owner: Owner, version: Version) -> Self {
        let shared = Arc::new(Shared {
            // it must be kept, and given back, although the run is being cancelled
            store: store.uncancelled(PATIENCE),
            run: owner.run.clone(),
            state: Mutex::new(State {
                owner,
                version,
                lost: false,
                released: false,
                ended: false,
                guarded: None,
            }),
            changed: Condvar::new(),
            rewriting: Mutex::new(()),
        });
        let keeper = Arc::clone(&shared);
        std::thread::spawn(move || {
            keeper.keep();
            keeper.lock().ended = true;
            keeper.changed.notify_all();
        });
        Self(shared)
    }

    /// Lets `writer` write from now on, while the lock is held; `tick` is called now and then.
    pub(super) fn guard(&self, writer: RemoteWriter, tick: impl Fn() + Send + Sync + 'static) -> Result<()> {
        self.0.lock().guarded = Some((writer, Box::new(tick)));
        self.confirm()
    }

    /// Rewrites the lock: fails with kind `Conflict` if it is another's by now.
    pub(super) fn confirm(&self) -> Result<()> {
        self.0.beat()
    }

    /// Gives the lock back, if it is still this run's; errors leave it to be found dead.
    pub(super) fn release(&self) {
        let mut state = self.0.lock();
        state.released = true;
        self.0.changed.notify_all();
        let begun = Instant::now();
        while !state.ended && begun.elapsed() < PATIENCE {
            state = self
                .0
                .changed
                .wait_timeout(state, Duration::from_millis(100))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let lost = state.lost;
        // it holds writers, which hold the journal
        state.guarded = None;
        drop(state);
        if !lost {
            let is_own = |bytes: &[u8]| {
                serde_json::from_slice::<Owner>(bytes).is_ok_and(|owner| owner.run == self.0.run)
            };
            let _ = self.0.store.remove_own_blocking(LOCK_KEY, &is_own);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if !self.0.lock().released {
            self.release();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> Error {
        let message =
            format!("another run took over what this one writes: the lock in {}", self.store.place());
        Error::new(ErrorKind::Conflict, message)
            .with_hint("look at what the other run made, then decide which one goes on")
    }

    /// Rewrites the lock once, and lets the writer go on if it is still held.
    fn beat(&self) -> Result<()> {
        let _one = self.rewriting.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        let (owner, version) = {
            let state = self.lock();
            if state.lost {
                return Err(self.lost());
            }
            let mut owner = state.owner.clone();
            owner.beat += 1;
            (owner, state.version.clone())
        };
        let written = self.store.update_blocking(LOCK_KEY, owner.to_bytes(), &version)?;
        let mut state = self.lock();
        match written {
            Conditional::Written(version) => {
                (state.owner, state.version) = (owner, version);
                if let Some((writer, _)) = &state.guarded {
                    writer.allow_until(begun + TRUST, begun + SILENCE);
                }
                Ok(())
            }
            Conditional::Refused => {
                state.lost = true;
                if let Some((writer, _)) = &state.guarded {
                    writer.fail(self.lost());
                }
                Err(self.lost())
            }
        }
    }

    /// Rewrites the lock again and again, until it is released or lost.
    fn keep(&self) {
        let mut next = Instant::now() + BEAT;
        loop {
            let (state, _) = self
                .changed
                .wait_timeout_while(self.lock(), TICK, |state| !state.released)
                .unwrap_or_else(PoisonError::into_inner);
            if state.released || state.lost {
                return;
            }
            if let Some((_, tick)) = &state.guarded {
                tick();
            }
            drop(state);
            if Instant::now() < next {
                continue;
            }
            let begun = Instant::now();
            next = match self.beat() {
                Ok(()) => begun + BEAT,
                // writes wait until the lock is known to be ours again; the watchdog ends a run in which it never is
                Err(_) => Instant::now() + TICK,
            };
        }
    }
}

/// Returns once the lock did not change for as long as its owner may be silent.
fn watch(store: &RemoteStore, version: &Version, cancel: &Cancel) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < SILENCE {
        let looked = Instant::now();
        while looked.elapsed() < LOOK {
            cancel.check()?;
            std::thread::sleep(Duration::from_millis(100));
        }
        store.pulse();
        match store.get_version_blocking(LOCK_KEY, LOCK_BYTES_MOST)? {
            Some((_, now)) if now == *version => {}
            None => return Ok(()),
            Some(_) => {
                let message = format!(
                    "another run is writing here at this moment: it keeps the lock in {}",
                    store.place()
                );
                return Err(Error::new(ErrorKind::Conflict, message)
                    .with_hint("wait for it, or name another destination"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_this_machine_is_known_to_live_or_to_have_ended() {
        let mut owner = Owner::of_this_run(&unique_name());
        assert!(!owner.has_ended(), "this process runs");
        owner.started += 1;
        assert!(owner.has_ended(), "the number was used again");
        owner.machine = "another".to_owned();
        assert!(!owner.has_ended(), "nobody knows of other machines");
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let owner =
            Owner { process: child.id(), started: started(child.id()).unwrap(), ..Owner::of_this_run("x") };
        assert!(!owner.has_ended());
        child.kill().unwrap();
        while started(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(owner.has_ended(), "killed, though nobody waited for it");
        child.wait().unwrap();
    }

    #[test]
    fn names_of_runs_differ() {
        assert_ne!(unique_name(), unique_name());
    }
}
