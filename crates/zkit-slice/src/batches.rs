//! How the --concat dimension is best worked on in batches: how many values to each, how many workers, what more cores buy.

use serde::Serialize;
use zkit_core::plan::WantedSlice;
use zkit_report::format;

/// The part of the memory that one batch may take, in percent: room for six workers, and for what they make of it.
const BATCH_PERCENT: u64 = 15;
/// Workers whose batches fit in memory beside each other.
const WORKERS_MOST: u64 = 100 / BATCH_PERCENT;

/// What was measured, and what there is to work with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) memory_bytes: u64,
    pub(crate) jobs: u64,
    /// Reading, decoding and encoding all of it, on one thread.
    pub(crate) work_seconds: f64,
    /// Writing all of it, which threads share.
    pub(crate) writing_seconds: f64,
}

/// Batches along one dimension, with the numbers that they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Batches {
    dimension: String,
    values: u64,
    bytes_per_value: u64,
    memory_bytes: u64,
    memory_percent: u64,
    values_per_batch: u64,
    batches: u64,
    workers: u64,
    threads_per_worker: u64,
    seconds_per_batch: f64,
    batches_per_second: f64,
    /// The part of the work on one thread that no other thread can take over.
    serial_fraction: f64,
    /// How much faster it would be with other numbers of cores, by Amdahl's law.
    speedups: Vec<Speedup>,
}

/// What a number of cores buys.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Speedup {
    cores: u64,
    speedup: f64,
}

impl Batches {
    /// Returns how to work on slices along a dimension; `None` where they do not have it.
    pub(crate) fn of(slices: &[WantedSlice], dimension: &str, measured: Measured) -> Option<Self> {
        let (mut values, mut bytes) = (0, 0_u64);
        for array in slices.iter().flat_map(|slice| &slice.arrays) {
            let Some(axis) = array.dimension_names.iter().position(|name| name == dimension) else {
                continue;
            };
            let item = array.parts.first()?.array.metadata.data_type.item_bytes().unwrap_or(1);
            let of_array = array.shape.iter().try_fold(item, |bytes, &length| bytes.checked_mul(length));
            values = values.max(array.shape[axis]);
            bytes = bytes.saturating_add(of_array.unwrap_or(u64::MAX));
        }
        let bytes_per_value = bytes.checked_div(values)?.max(1);
        Some(Self::new(dimension, (values, bytes_per_value), measured))
    }

    fn new(dimension: &str, (values, bytes_per_value): (u64, u64), measured: Measured) -> Self {
        let fitting = measured.memory_bytes / 100 * BATCH_PERCENT / bytes_per_value;
        let workers = measured.jobs.min(WORKERS_MOST).min(values).max(1);
        let values_per_batch = fitting.min(values.div_ceil(workers)).max(1);
        let threads_per_worker = (measured.jobs / workers).max(1);
        let share = float(values_per_batch) / float(values);
        // workers wait for each other where they write
        let seconds_per_batch = measured.work_seconds * share / float(threads_per_worker)
            + measured.writing_seconds * share * float(workers);
        let serial_fraction = measured.writing_seconds
            / (measured.work_seconds + measured.writing_seconds).max(f64::MIN_POSITIVE);
        let speedup = |cores: u64| 1.0 / (serial_fraction + (1.0 - serial_fraction) / float(cores));
        let now = speedup(measured.jobs);
        let speedups = [2, 4, 8].map(|times| {
            let cores = measured.jobs.saturating_mul(times);
            Speedup { cores, speedup: speedup(cores) / now }
        });
        Self {
            dimension: dimension.to_owned(),
            values,
            bytes_per_value,
            memory_bytes: measured.memory_bytes,
            memory_percent: BATCH_PERCENT,
            values_per_batch,
            batches: values.div_ceil(values_per_batch),
            workers,
            threads_per_worker,
            seconds_per_batch,
            batches_per_second: float(workers) / seconds_per_batch.max(f64::MIN_POSITIVE),
            serial_fraction,
            speedups: speedups.to_vec(),
        }
    }

    /// Returns it for people, with the arithmetic.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let size = format!(
            "{} of {} `{}` each: {} % of {} memory / {} a value = {} at most",
            format::counted(self.batches, "batch", "batches"),
            format::count(self.values_per_batch),
            self.dimension,
            self.memory_percent,
            format::bytes(self.memory_bytes),
            format::bytes(self.bytes_per_value),
            format::count(self.memory_bytes / 100 * self.memory_percent / self.bytes_per_value)
        );
        let workers = format!(
            "{} x {}: {} / {:.3} s a batch = {:.2} batches a second",
            format::counted(self.workers, "worker", "workers"),
            format::counted(self.threads_per_worker, "thread", "threads"),
            self.workers,
            self.seconds_per_batch,
            self.batches_per_second
        );
        let bought: Vec<String> = self
            .speedups
            .iter()
            .map(|one| format!("{} cores {:.1} x as fast", one.cores, one.speedup))
            .collect();
        let cores = format!(
            "{}: {:.0} % of the work is writing, which cores do not divide (Amdahl)",
            bought.join(", "),
            self.serial_fraction * 100.0
        );
        let meaning = format!(
            "a program that loads the slice in parts may load {1} of `{0}` at once, in {2} beside each other; \
             the first part: --isel {0}=0..{3}",
            self.dimension,
            format::count(self.values_per_batch),
            format::counted(self.workers, "worker", "workers"),
            self.values_per_batch
        );
        [("batches", size), ("that is", meaning), ("workers", workers), ("more cores", cores)]
            .map(|(key, value)| (key.to_owned(), value))
            .to_vec()
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: Measured =
        Measured { memory_bytes: 1000 << 20, jobs: 4, work_seconds: 30.0, writing_seconds: 10.0 };

    #[test]
    fn a_batch_takes_its_share_of_the_memory_and_no_more() {
        let batches = Batches::new("file_id", (1000, 10 << 20), MEASURED);
        assert_eq!((batches.values_per_batch, batches.batches), (15, 67));
        assert_eq!((batches.workers, batches.threads_per_worker), (4, 1));
        let few = Batches::new("file_id", (8, 1), MEASURED);
        assert_eq!((few.values_per_batch, few.batches, few.workers), (2, 4, 4), "every worker has one");
        let vast = Batches::new("file_id", (3, 1 << 40), Measured { jobs: 64, ..MEASURED });
        assert_eq!((vast.values_per_batch, vast.workers, vast.threads_per_worker), (1, 3, 21));
    }

    #[test]
    fn cores_buy_no_more_than_amdahl_says() {
        let batches = Batches::new("file_id", (1000, 10 << 20), MEASURED);
        assert!((batches.serial_fraction - 0.25).abs() < 1e-9);
        // one core 1, four cores 16 / 7, eight cores 32 / 11
        let eight = batches.speedups[0];
        assert_eq!(eight.cores, 8);
        assert!((eight.speedup - (32.0 / 11.0) / (16.0 / 7.0)).abs() < 1e-9);
        let none = Batches::new("x", (10, 1), Measured { writing_seconds: 0.0, ..MEASURED });
        assert!((none.speedups[2].speedup - 8.0).abs() < 1e-9);
    }

    #[test]
    fn throughput_is_workers_by_time() {
        let batches = Batches::new("file_id", (100, 100 << 20), MEASURED);
        assert_eq!(batches.values_per_batch, 1);
        // 0.3 s of work, and 0.1 s of writing for each of four workers
        assert!((batches.seconds_per_batch - 0.7).abs() < 1e-9);
        assert!((batches.batches_per_second - 4.0 / 0.7).abs() < 1e-9);
        assert!(batches.facts()[2].1.contains("4 workers x 1 thread"), "{:?}", batches.facts());
    }
}
