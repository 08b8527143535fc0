//! Which of several trials is the best: a pure function of what was measured.

use super::{Prefer, Trial};
use crate::metadata::TargetCodec;

/// Encoding this fast costs little beside writing; slower codecs are not chosen for size.
const ENCODE_FLOOR: f64 = 50e6;

/// What encodes slower than this leaves no time for the next level.
const ENCODE_SPARE: f64 = 2.0 * ENCODE_FLOOR;

/// Sizes from here on count as 1.
const HARDLY_SMALLER: f64 = 0.98;

/// Sizes below count as this: what compresses a thousandfold is no matter of bytes any more.
const SIZE_LEAST: f64 = 0.001;

/// Costs closer than this factor are the same to a clock.
const SAME_COST: f64 = 1.05;

/// How trials are weighed; see the table of the module above.
struct Rule {
    size_power: f64,
    size_limit: f64,
    encode_floor: f64,
}

impl Rule {
    fn of(prefer: Prefer) -> Self {
        match prefer {
            Prefer::Speed => Self { size_power: 0.0, size_limit: 1.25, encode_floor: 0.0 },
            Prefer::Balanced => Self { size_power: 3.0, size_limit: 1.005, encode_floor: 0.0 },
            Prefer::Size => Self { size_power: 200.0, size_limit: 1.005, encode_floor: ENCODE_FLOOR },
        }
    }
}

/// Returns the encoded bytes for each decoded one, as far as they matter.
pub(super) fn size(trial: &Trial) -> f64 {
    let size = 1.0 / trial.ratio;
    if size < HARDLY_SMALLER { size.max(SIZE_LEAST) } else { 1.0 }
}

/// Returns the position of the best trial; `None` if there is none within the limits of what is preferred.
pub(super) fn best(trials: &[Trial], reference: Option<&Trial>, prefer: Prefer) -> Option<usize> {
    let rule = Rule::of(prefer);
    let size_most = reference.map_or(1.0, size) * rule.size_limit;
    let allowed = |trial: &Trial| {
        size(trial) <= size_most
            && (trial.encode_bytes_per_second >= rule.encode_floor
                || trial.codec == TargetCodec::Uncompressed)
    };
    let costs: Vec<(usize, f64)> = trials
        .iter()
        .enumerate()
        .filter(|(_, trial)| allowed(trial))
        .map(|(position, trial)| (position, log_cost(trial, &rule)))
        .collect();
    let least = costs.iter().map(|(_, cost)| *cost).min_by(f64::total_cmp)?;
    costs
        .into_iter()
        .filter(|(_, cost)| *cost <= least + SAME_COST.ln())
        .map(|(position, _)| position)
        .min_by(|&a, &b| size(&trials[a]).total_cmp(&size(&trials[b])))
}

/// Returns the position of the smallest trial, however slow.
pub(super) fn smallest(trials: &[Trial]) -> Option<usize> {
    (0..trials.len()).max_by(|&a, &b| trials[a].ratio.total_cmp(&trials[b].ratio))
}

/// Returns whether a higher level would be too slow.
pub(super) fn leaves_no_time(trial: &Trial) -> bool {
    trial.encode_bytes_per_second < ENCODE_SPARE
}

/// Returns the logarithm of the cost, which itself would leave the range of floats.
fn log_cost(trial: &Trial, rule: &Rule) -> f64 {
    let seconds = 2.0 / trial.encode_bytes_per_second + 1.0 / trial.decode_bytes_per_second;
    seconds.ln() + rule.size_power * size(trial).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::BloscShuffle;

    /// A trial of the given ratio that encodes and decodes at so many GB/s.
    fn trial(ratio: f64, encode: f64, decode: f64) -> Trial {
        Trial {
            codec: TargetCodec::Blosc {
                compressor: "zstd".to_owned(),
                level: 3,
                shuffle: BloscShuffle::Bit,
                block_bytes: 0,
            },
            ratio,
            encode_bytes_per_second: encode * 1e9,
            decode_bytes_per_second: decode * 1e9,
        }
    }

    fn chosen(trials: &[Trial], prefer: Prefer) -> Option<usize> {
        best(trials, trials.first(), prefer)
    }

    #[test]
    fn of_equal_sizes_the_fastest_is_best() {
        let trials = [trial(4.61, 0.6, 1.3), trial(4.62, 1.4, 1.6), trial(4.0, 9.0, 9.0)];
        assert_eq!(chosen(&trials, Prefer::Balanced), Some(1));
        assert_eq!(chosen(&trials, Prefer::Size), Some(1));
        assert_eq!(chosen(&trials, Prefer::Speed), Some(2));
    }

    #[test]
    fn balanced_is_never_larger_than_the_reference() {
        let trials = [trial(3.34, 0.6, 1.3), trial(3.31, 1.4, 1.6), trial(3.33, 1.2, 1.6)];
        assert_eq!(chosen(&trials, Prefer::Balanced), Some(2));
        assert_eq!(chosen(&trials[..2], Prefer::Balanced), Some(0));
    }

    #[test]
    fn a_fifth_smaller_is_worth_half_the_speed() {
        let smaller = |ratio, encode, decode| [trial(4.0, 1.0, 2.0), trial(ratio, encode, decode)];
        assert_eq!(chosen(&smaller(5.4, 0.5, 1.0), Prefer::Balanced), Some(1));
        assert_eq!(chosen(&smaller(4.7, 0.5, 1.0), Prefer::Balanced), Some(0));
        assert_eq!(chosen(&smaller(4.7, 0.33, 0.66), Prefer::Balanced), Some(0));
        assert_eq!(chosen(&smaller(4.7, 0.33, 0.66), Prefer::Size), Some(1));
    }

    #[test]
    fn speed_takes_a_quarter_more_bytes_and_no_more() {
        let trials = [trial(4.0, 0.6, 1.3), trial(3.3, 2.0, 3.0), trial(3.1, 4.0, 4.0)];
        assert_eq!(chosen(&trials, Prefer::Speed), Some(1));
    }

    #[test]
    fn size_stops_at_the_floor() {
        let trials = [trial(4.0, 0.6, 1.3), trial(4.5, 0.06, 1.3), trial(5.0, 0.04, 1.3)];
        assert_eq!(chosen(&trials, Prefer::Size), Some(1));
        assert_eq!(chosen(&[trial(4.0, 0.01, 0.1)], Prefer::Size), None);
    }

    #[test]
    fn what_hardly_compresses_is_stored() {
        let stored = Trial { codec: TargetCodec::Uncompressed, ..trial(1.0, 10.0, 10.0) };
        for prefer in [Prefer::Speed, Prefer::Balanced, Prefer::Size] {
            assert_eq!(chosen(&[trial(1.01, 0.6, 1.3), stored.clone()], prefer), Some(1));
            assert_eq!(chosen(&[trial(1.3, 0.6, 1.3), stored.clone()], prefer), Some(0));
        }
    }

    #[test]
    fn costs_that_no_clock_tells_apart_go_by_size() {
        let trials = [trial(4.0, 1.0, 2.0), trial(4.001, 1.01, 2.0), trial(4.01, 0.99, 2.0)];
        assert_eq!(chosen(&trials, Prefer::Balanced), Some(2));
        assert_eq!(chosen(&[], Prefer::Balanced), None);
    }
}
