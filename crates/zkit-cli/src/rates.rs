//! How fast a run is, and how long it still takes; from samples of its meter.

use std::collections::VecDeque;
use std::time::Duration;

use zkit_core::event::Meter;

/// Rates are means over at least this time, so that they do not jump with every unit.
const WINDOW: Duration = Duration::from_secs(30);

/// What the meter showed at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Time since the start of the run.
    pub(crate) at: Duration,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_finished: u64,
    pub(crate) bytes_written: u64,
}

impl Sample {
    /// Returns what the meter shows.
    pub(crate) fn of(meter: &Meter, at: Duration) -> Self {
        Self {
            at,
            bytes_read: meter.bytes_read.get(),
            bytes_finished: meter.decoded_bytes_finished.get(),
            bytes_written: meter.bytes_written.get(),
        }
    }
}

/// The samples of the last [`WINDOW`], oldest first.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    samples: VecDeque<Sample>,
}

/// Bytes that went by, and in which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
}

impl Rates {
    /// Adds a sample; drops those that the window no longer needs.
    pub(crate) fn add(&mut self, sample: Sample) {
        self.samples.push_back(sample);
        while self.samples.get(1).is_some_and(|second| sample.at.saturating_sub(second.at) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Returns the bytes read within the window.
    pub(crate) fn read(&self) -> Flow {
        self.flow(|sample| sample.bytes_read)
    }

    /// Returns the bytes written within the window.
    pub(crate) fn written(&self) -> Flow {
        self.flow(|sample| sample.bytes_written)
    }

    /// Returns how long the rest takes at the present rate; `None` where nothing moves.
    pub(crate) fn time_left(&self, decoded_bytes_total: u64) -> Option<Duration> {
        let flow = self.flow(|sample| sample.bytes_finished);
        let left = decoded_bytes_total.saturating_sub(self.samples.back()?.bytes_finished);
        if flow.bytes == 0 {
            return None;
        }
        Duration::try_from_secs_f64(flow.time.as_secs_f64() * left as f64 / flow.bytes as f64).ok()
    }

    fn flow(&self, counter: impl Fn(&Sample) -> u64) -> Flow {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) => Flow {
                bytes: counter(last).saturating_sub(counter(first)),
                time: last.at.saturating_sub(first.at),
            },
            _ => Flow { bytes: 0, time: Duration::ZERO },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, bytes: u64) -> Sample {
        let at = Duration::from_secs(seconds);
        Sample { at, bytes_read: bytes, bytes_finished: 4 * bytes, bytes_written: 2 * bytes }
    }

    #[test]
    fn old_samples_no_longer_count() {
        let mut rates = Rates::default();
        rates.add(sample(0, 0));
        rates.add(sample(10, 1_000_000));
        rates.add(sample(40, 1_000_300));
        assert_eq!(rates.read(), Flow { bytes: 300, time: Duration::from_secs(30) });
        assert_eq!(rates.written(), Flow { bytes: 600, time: Duration::from_secs(30) });
    }

    #[test]
    fn samples_further_apart_than_the_window_still_give_a_rate() {
        let mut rates = Rates::default();
        rates.add(sample(0, 0));
        rates.add(sample(60, 600));
        rates.add(sample(120, 1_800));
        assert_eq!(rates.read(), Flow { bytes: 1_200, time: Duration::from_secs(60) });
    }

    #[test]
    fn the_time_left_follows_the_present_rate() {
        let mut rates = Rates::default();
        assert_eq!(rates.time_left(1), None);
        rates.add(sample(0, 0));
        assert_eq!(rates.time_left(1), None);
        rates.add(sample(10, 100));
        assert_eq!(rates.time_left(4 * 300), Some(Duration::from_secs(20)));
        assert_eq!(rates.time_left(1), Some(Duration::ZERO));
    }
}
