//! Which stored chunks of an array are looked at.

use std::str::FromStr;

use crate::grid::ChunkSet;

/// How much of each array is decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    /// All of it.
    Full,
    /// The `number`-th of `of` parts, counted from 1; the parts are disjoint, and together everything.
    Part {
        /// Which part.
        number: u64,
        /// How many parts there are.
        of: u64,
    },
    /// So many of a hundred chunks, at least one.
    Percent(f64),
    /// So many stored bytes of all arrays together; each has an equal share, what small ones leave goes to the others,
    /// and of each at least one chunk is taken.
    Bytes(u64),
}

/// Reads `3/10`, `5%`, `256MiB`.
impl FromStr for Sample {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("found `{text}`; write a part such as 1/10, a share such as 5%, or a size such as 1GiB")
        };
        let text = text.trim();
        if let Some((number, of)) = text.split_once('/') {
            let number = number.trim().parse().map_err(|_| wrong())?;
            let of = of.trim().parse().map_err(|_| wrong())?;
            return if (1..=of).contains(&number) { Ok(Self::Part { number, of }) } else { Err(wrong()) };
        }
        if let Some(share) = text.strip_suffix('%') {
            let share: f64 = share.trim().parse().map_err(|_| wrong())?;
            return if share > 0.0 && share <= 100.0 { Ok(Self::Percent(share)) } else { Err(wrong()) };
        }
        let size: bytesize::ByteSize = text.parse().map_err(|_| wrong())?;
        if size.as_u64() > 0 { Ok(Self::Bytes(size.as_u64())) } else { Err(wrong()) }
    }
}

/// What is stored of one array.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stock {
    pub(super) chunks: u64,
    pub(super) bytes: u64,
}

/// Returns how many chunks of each array are drawn; all of them where the sample is a part.
pub(super) fn shares(sample: Sample, stocks: &[Stock]) -> Vec<u64> {
    match sample {
        Sample::Full | Sample::Part { .. } => stocks.iter().map(|stock| stock.chunks).collect(),
        Sample::Percent(percent) => {
            #[expect(clippy::cast_precision_loss, reason = "a share of a count need not be exact")]
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the count")]
            let share = |chunks: u64| (chunks as f64 * percent / 100.0).ceil() as u64;
            stocks.iter().map(|stock| share(stock.chunks).clamp(1.min(stock.chunks), stock.chunks)).collect()
        }
        Sample::Bytes(bytes) => by_bytes(bytes, stocks),
    }
}

/// Divides bytes evenly; what small arrays do not need goes to the larger ones.
fn by_bytes(bytes: u64, stocks: &[Stock]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..stocks.len()).collect();
    order.sort_by_key(|&at| stocks[at].bytes);
    let mut shares = vec![0; stocks.len()];
    let (mut left, mut arrays) = (bytes, stocks.len() as u64);
    for at in order {
        let stock = stocks[at];
        let share = left / arrays.max(1);
        arrays -= 1;
        let mean = (stock.bytes / stock.chunks.max(1)).max(1);
        let chunks = (share / mean).clamp(1.min(stock.chunks), stock.chunks);
        shares[at] = if stock.bytes <= share { stock.chunks } else { chunks };
        left = left.saturating_sub(shares[at].saturating_mul(mean));
    }
    shares
}

/// Returns the drawn positions in ascending order: the first and the last stored chunk, and one at a random place of
/// each of evenly spread strata. The same seed draws the same.
pub(super) fn draw(sample: Sample, stored: &ChunkSet, share: u64, seed: u64) -> Vec<u64> {
    let chunks = stored.len();
    let mut random = Random(seed);
    let mut ranks: Vec<u64> = match sample {
        Sample::Part { number, of } => {
            // of each run of `of` chunks one, at a place that the run's own number turns round
            let strata = chunks.div_ceil(of);
            let at = |stratum: u64| stratum * of + (number - 1 + hash(stratum, seed) % of) % of;
            (0..strata).map(at).filter(|&rank| rank < chunks).collect()
        }
        _ if share >= chunks => (0..chunks).collect(),
        _ => {
            let ends = if share > 2 { vec![0, chunks - 1] } else { Vec::new() };
            let strata = share - ends.len() as u64;
            let edge = |stratum: u64| {
                let product = u128::from(stratum) * u128::from(chunks) / u128::from(strata.max(1));
                u64::try_from(product).unwrap_or(chunks)
            };
            let drawn = (0..strata).map(|at| edge(at) + random.below(edge(at + 1) - edge(at)));
            ends.into_iter().chain(drawn).collect()
        }
    };
    ranks.sort_unstable();
    ranks.dedup();
    let mut wanted = ranks.into_iter().peekable();
    let with_rank = stored.iter().zip(0u64..);
    with_rank.filter(|(_, rank)| wanted.next_if_eq(rank).is_some()).map(|(position, _)| position).collect()
}

/// Returns `most` of `total` places, evenly spread from a random one on; all of them if there are no more.
pub(super) fn spread(total: usize, most: usize, seed: u64) -> impl Fn(usize) -> bool {
    let step = total.div_ceil(most.max(1)).max(1);
    let first = crate::units::saturating_usize(hash(total as u64, seed) % step as u64);
    move |at| at % step == first
}

/// A sequence that looks random and is the same each time.
struct Random(u64);

impl Random {
    /// Returns a number below `bound`, 0 for 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = hash(self.0, 1);
        self.0 % bound.max(1)
    }
}

fn hash(number: u64, seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), seed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(positions: impl Iterator<Item = u64>) -> ChunkSet {
        let mut set = ChunkSet::default();
        positions.for_each(|position| {
            set.insert(position);
        });
        set
    }

    proptest! {
        #[test]
        fn a_sample_is_as_large_as_asked_and_spread(chunks in 1u64..3000, share in 1u64..300, seed in any::<u64>()) {
            let stored = set((0..chunks).map(|position| position * 7));
            let share = share.min(chunks);
            let drawn = draw(Sample::Percent(1.0), &stored, share, seed);
            prop_assert_eq!(&drawn, &draw(Sample::Percent(1.0), &stored, share, seed));
            prop_assert!(drawn.len() as u64 <= share && drawn.len() as u64 + 2 >= share, "{} of {share}", drawn.len());
            prop_assert!(drawn.iter().all(|&position| stored.contains(position)));
            // no more than two strata lie between neighbours
            let largest = drawn.windows(2).map(|pair| pair[1] / 7 - pair[0] / 7).max().unwrap_or(0);
            prop_assert!(largest <= 3 * chunks.div_ceil(share.saturating_sub(2).max(1)), "{largest}");
        }

        #[test]
        fn parts_are_disjoint_and_together_everything(chunks in 0u64..500, of in 1u64..20, seed in any::<u64>()) {
            let stored = set(0..chunks);
            let mut seen = BTreeSet::new();
            for number in 1..=of {
                for position in draw(Sample::Part { number, of }, &stored, chunks, seed) {
                    prop_assert!(seen.insert(position));
                }
            }
            prop_assert_eq!(seen.len() as u64, chunks);
        }

        #[test]
        fn bytes_are_divided_and_no_array_is_forgotten(stocks in prop::collection::vec((0u64..50, 1u64..1000), 1..20), bytes in 1u64..100_000) {
            let stocks: Vec<Stock> = stocks.into_iter().map(|(chunks, mean)| Stock { chunks, bytes: chunks * mean }).collect();
            let shares = shares(Sample::Bytes(bytes), &stocks);
            let mut taken = 0;
            for (share, stock) in shares.iter().zip(&stocks) {
                prop_assert!(*share <= stock.chunks && (*share > 0 || stock.chunks == 0));
                if *share > 1 {
                    taken += share * stock.bytes / stock.chunks;
                }
            }
            prop_assert!(taken <= bytes, "{taken} of {bytes}");
            if stocks.iter().map(|stock| stock.bytes).sum::<u64>() <= bytes {
                prop_assert!(shares.iter().zip(&stocks).all(|(share, stock)| *share == stock.chunks));
            }
        }
    }

    #[test]
    fn samples_are_read_as_people_write_them() {
        assert_eq!("3/10".parse(), Ok(Sample::Part { number: 3, of: 10 }));
        assert_eq!("2.5%".parse(), Ok(Sample::Percent(2.5)));
        assert_eq!("256MiB".parse(), Ok(Sample::Bytes(256 << 20)));
        for wrong in ["", "0/3", "4/3", "0%", "101%", "0", "many", "1/0", "-1%"] {
            assert!(wrong.parse::<Sample>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn spread_places_are_few() {
        let taken = spread(1000, 16, 3);
        let count = (0..1000).filter(|&at| taken(at)).count();
        assert!((15..=16).contains(&count), "{count}");
        let all = spread(7, 16, 3);
        assert!((0..7).all(all));
    }
}
