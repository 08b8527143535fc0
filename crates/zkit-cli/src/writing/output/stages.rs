//! Where the time went, what bounds the run, and what would help.

use std::time::Duration;

use serde::Serialize;
use zkit_core::engine::Prefer;
use zkit_core::event::Meter;
use zkit_report::{Column, Table};

use crate::writing::VerifyArg;

/// Wall-clock seconds for `total`, `plan` and `verify`; the others are sums over threads.
#[derive(Debug, Serialize)]
pub(super) struct Seconds {
    pub(super) total: f64,
    pub(super) plan: f64,
    /// Whether some stores were verified while others were copied.
    #[serde(skip)]
    overlaps: bool,
    read: f64,
    decode: f64,
    assemble: f64,
    encode: f64,
    write: f64,
    verify: f64,
    /// What would make encoding faster, in words.
    #[serde(skip)]
    faster_encoding: &'static str,
}

/// Returns what would make encoding faster, where codecs were measured and where one was named.
pub(super) fn faster_encoding(measured: bool, prefer: Prefer) -> &'static str {
    match (measured, prefer) {
        (true, Prefer::Speed) => "more cores",
        (true, _) => "more cores, or --prefer speed",
        (false, _) => "more cores, or a faster --codec",
    }
}

/// A stage of the copy: its name, its seconds over all threads, and what would make it shorter.
type Stage = (&'static str, f64, &'static str);

impl Seconds {
    pub(super) fn of(
        meter: &Meter,
        (total, plan): (Duration, Duration),
        stores: usize,
        faster_encoding: &'static str,
    ) -> Self {
        Self {
            total: total.as_secs_f64(),
            plan: plan.as_secs_f64(),
            overlaps: stores > 1,
            read: meter.read_time.seconds(),
            decode: meter.decode_time.seconds(),
            assemble: meter.assemble_time.seconds(),
            encode: meter.encode_time.seconds(),
            write: meter.write_time.seconds(),
            verify: meter.verify_time.seconds(),
            faster_encoding,
        }
    }

    fn stages(&self) -> [Stage; 5] {
        [
            ("read", self.read, "faster storage, or fewer and larger chunks in the source"),
            ("decode", self.decode, "more cores"),
            ("assemble", self.assemble, "more cores, or chunks longer along the last dimension"),
            ("encode", self.encode, self.faster_encoding),
            (
                "write",
                self.write,
                "faster storage, or fewer and larger objects: larger --chunks, or --shards",
            ),
        ]
    }

    /// Returns the time in which chunks were copied.
    fn copy(&self) -> f64 {
        let verify = if self.overlaps { 0.0 } else { self.verify };
        (self.total - self.plan - verify).max(1e-9)
    }

    /// Returns whether the run took long enough for its stages to mean something.
    pub(super) fn is_worth_telling(&self) -> bool {
        self.total >= 1.0
    }

    /// Returns a table of the stages.
    pub(super) fn table(&self, jobs: usize) -> Table {
        let mut table = Table::new([
            Column::left("stage"),
            Column::right("seconds"),
            Column::right("share of the threads"),
        ]);
        #[expect(clippy::cast_precision_loss, reason = "a few threads")]
        let threads = self.copy() * jobs as f64;
        let busy: f64 = self.stages().iter().map(|stage| stage.1).sum();
        // fetching threads come on top of those that work
        let available = threads.max(busy);
        for (name, seconds, _) in self.stages() {
            table.row([name.to_owned(), format!("{seconds:.2}"), share(seconds, available)]);
        }
        let idle = (available - busy).max(0.0);
        table.row(["wait".to_owned(), format!("{idle:.2}"), share(idle, available)]);
        table
    }

    /// Says in one sentence what bounds the run, and what would help (Amdahl's law).
    pub(super) fn bound(&self, jobs: usize, verify: VerifyArg) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a few threads")]
        let jobs = jobs as f64;
        let stages = self.stages();
        let busy: f64 = stages.iter().map(|stage| stage.1).sum();
        if self.verify > self.copy() {
            let less = match verify {
                VerifyArg::Full => "--verify sample or none",
                VerifyArg::Sample | VerifyArg::None => "--verify none",
            };
            return format!("verifying takes longer than copying: {less} would help");
        }
        if busy < 0.5 * self.copy() * jobs {
            return format!(
                "threads waited {} of the time: there is too little work at once for {jobs:.0} of them, or other programs took the cores",
                share(self.copy() * jobs - busy, self.copy() * jobs)
            );
        }
        let longest = stages.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(&stages[0]);
        let without = self.total - longest.1 / jobs;
        format!(
            "{} bounds the run: if it cost nothing, {:.1} s would be {:.1} s; {} would help",
            longest.0,
            self.total,
            without.max(0.0),
            longest.2
        )
    }
}

fn share(part: f64, whole: f64) -> String {
    format!("{:.0} %", (100.0 * part / whole.max(1e-9)).min(100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_stores_that_are_verified_beside_others_are_no_more_than_the_threads() {
        let meter = Meter::default();
        meter.decode_time.add_time(Duration::from_secs(9));
        meter.encode_time.add_time(Duration::from_secs(8));
        meter.verify_time.add_time(Duration::from_secs(7));
        let seconds = Seconds::of(&meter, (Duration::from_secs(10), Duration::from_secs(1)), 2, "more cores");
        let text = format!("{:?}", seconds.table(2));
        for share in ["50 %", "44 %", "6 %"] {
            assert!(text.contains(share), "{share}: {text}");
        }
    }
}
