//! What a plan would cost: measured on samples of the source and a short probe of the destination.

use std::path::Path;
use std::time::{Duration, Instant};

use zkit_core::engine::{self, Estimate, Sources};
use zkit_core::error::Error;
use zkit_core::event::Event;
use zkit_core::location::StoreUrl;
use zkit_core::plan::CopyPlan;
use zkit_core::publish;
use zkit_core::store::{LocalWriter, RemoteStore, RemoteWriter, write_error};

use super::destinations::Reach;
use super::run::Run;

/// Files that a probe writes, and their bytes.
const PROBE_FILES: u64 = 200;
const PROBE_FILE_BYTES: usize = 64 << 10;
/// Longest time of a probe.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// Longest wait for an answer while a probe is removed.
const PROBE_PATIENCE: Duration = Duration::from_secs(20);

/// What a plan costs beside its own totals.
#[derive(Debug)]
pub struct Costs {
    /// Disk space of chunks that the source leaves out and the copy cannot.
    pub(super) absent_bytes: u64,
    /// Free disk space at the destination.
    pub(super) free_bytes: Option<u64>,
    /// Sizes and time, from a sample.
    pub(super) estimate: Option<Estimate>,
    /// How fast the destination takes files; `None` if nothing can be written there.
    pub(super) probe: Option<Probe>,
}

/// How fast a directory takes files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) files_per_second: f64,
    pub(super) bytes_per_second: f64,
}

impl Probe {
    fn of(files: u64, seconds: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let (files, bytes) = (files as f64, (files * PROBE_FILE_BYTES as u64) as f64);
        Self { files_per_second: files / seconds, bytes_per_second: bytes / seconds }
    }
}

impl Costs {
    /// Returns the whole time: reading, decoding and encoding, or creating files where that takes longer.
    pub fn seconds(&self, plan: &CopyPlan) -> Option<f64> {
        let estimate = self.estimate?;
        Some(estimate.time.as_secs_f64().max(self.writing_seconds(plan).unwrap_or(0.0)))
    }

    /// Returns the time of reading, decoding and encoding on all threads of the plan; `None` where nothing was sampled.
    pub fn work_seconds(&self) -> Option<f64> {
        Some(self.estimate?.time.as_secs_f64())
    }

    /// Returns the seconds that writing takes by the probe.
    pub fn writing_seconds(&self, plan: &CopyPlan) -> Option<f64> {
        let (probe, estimate) = (self.probe?, self.estimate?);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let (files, bytes) = (plan.totals.chunks_written as f64, estimate.bytes_encoded as f64);
        Some((files / probe.files_per_second).max(bytes / probe.bytes_per_second))
    }

    /// Returns whether creating files would take most of the time.
    pub(super) fn files_dominate(&self, plan: &CopyPlan) -> bool {
        let work = self.estimate.map_or(0.0, |estimate| estimate.time.as_secs_f64());
        self.writing_seconds(plan).is_some_and(|seconds| seconds > work && seconds > 60.0)
    }
}

impl Run<'_> {
    /// Measures what the plan would cost, on samples of its sources and by a short probe of the first destination.
    pub fn costs(&self, reach: &Reach<'_>) -> anyhow::Result<Costs> {
        self.shell.observer().event(Event::Phase("estimating"));
        let sources: Vec<Sources<'_>> =
            self.jobs.iter().map(|job| Sources { source: job.source, parts: job.parts }).collect();
        let first = self.jobs.first().map(|job| job.destination);
        let absent_bytes = engine::absent_bytes(self.plan)?;
        let estimate = engine::estimate_copy(self.plan, &sources, self.resources.jobs, self.shell.cancel())?;
        Ok(Costs {
            absent_bytes,
            free_bytes: first.and_then(|destination| publish::free_bytes(destination.local_path()?)),
            estimate,
            probe: first.and_then(|destination| probe(destination, reach).ok()),
        })
    }
}

/// Writes some files or objects beside a destination, and removes them.
fn probe(destination: &StoreUrl, reach: &Reach<'_>) -> Result<Probe, Error> {
    match destination.local_path() {
        Some(path) => probe_directory(path),
        None => probe_bucket(&RemoteStore::open(destination, reach.options())?, reach),
    }
}

fn probe_bucket(store: &RemoteStore, reach: &Reach<'_>) -> Result<Probe, Error> {
    // a name that nobody else has: what is below it is removed
    let name = format!(".partial.probe-{}", publish::unique_name());
    let writer = RemoteWriter::new(store.sibling(&name)?, reach.room());
    let bytes = vec![0x5a; PROBE_FILE_BYTES];
    let started = Instant::now();
    let (mut objects, mut written) = (0, Ok(()));
    while objects < PROBE_FILES && started.elapsed() < PROBE_TIME && written.is_ok() {
        written = writer.start_put(objects.to_string(), &bytes, None, |_| ());
        objects += 1;
    }
    let written = written.and_then(|()| writer.wait());
    let seconds = started.elapsed().as_secs_f64().max(1e-9);
    writer.settle(PROBE_TIME);
    writer.store().uncancelled(PROBE_PATIENCE).remove_all_blocking(&|| Ok(()))?;
    written?;
    Ok(Probe::of(objects, seconds))
}

fn probe_directory(destination: &Path) -> Result<Probe, Error> {
    let beside = destination
        .ancestors()
        .skip(1)
        .map(|ancestor| if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor })
        .find(|ancestor| ancestor.is_dir())
        .unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new()
        .prefix(".zkit-probe-")
        .tempdir_in(beside)
        .map_err(|error| write_error(beside, "probe", error))?;
    let writer = LocalWriter::open(folder.path())?;
    let bytes = vec![0x5a; PROBE_FILE_BYTES];
    let started = Instant::now();
    let mut files = 0;
    while files < PROBE_FILES && started.elapsed() < PROBE_TIME {
        writer.put(&format!("{}/{files}", files % 8), &bytes)?;
        files += 1;
    }
    let seconds = started.elapsed().as_secs_f64().max(1e-9);
    Ok(Probe::of(files, seconds))
}
