//! What is wrong with a coordinate, or worth knowing: missing values, duplicates, order, steps and gaps.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::coordinate::{Axis, Coordinate, Values};
use super::step::{Steps, steps_of};

/// Blocks of repeated values that an analysis names at most.
const REPEATS_MOST: usize = 64;

/// What there is to say of a coordinate's values; positions are those of the array.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// How many elements there are.
    pub len: usize,
    /// How many hold no value: NaN, NaT, a declared fill value, never written.
    pub missing: usize,
    /// The first of them.
    pub first_missing: Option<usize>,
    /// The first value that is infinite.
    pub first_infinite: Option<usize>,
    /// Values that occur more than once.
    pub duplicates: Duplicates,
    /// The order of the values, repeated and missing ones left out.
    pub order: Order,
    /// How far values are apart, and what is missing between them; `None` for texts and for fewer than two values.
    pub steps: Option<Steps>,
}

/// Values that occur more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Duplicates {
    /// Elements beyond the first of each value.
    pub extra: usize,
    /// How many values occur more than once.
    pub values: usize,
    /// Runs of elements that repeat others, by position; at most 64 of them.
    pub repeats: Vec<Repeat>,
}

/// A run of elements that repeats an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// The position where the values stand first.
    pub first: usize,
    /// The position where they stand again.
    pub again: usize,
    /// How many there are.
    pub len: usize,
}

/// The order of values, each counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Fewer than two values.
    Single,
    /// Each is larger than the one before it.
    Increasing,
    /// Each is smaller than the one before it.
    Decreasing,
    /// A rising or falling sequence of longitudes that jumps once by the circle: 0 to 179, then -180 to -1.
    Seam {
        /// The first position behind the jump.
        at: usize,
    },
    /// Neither.
    Broken {
        /// The first position whose value goes against the direction of most.
        at: usize,
        /// How many do.
        breaks: usize,
        /// Whether most values rise.
        rising: bool,
    },
}

/// Analyses a coordinate. Time: a sort at most; memory: a few words an element where it is not in order.
///
/// ```
/// use zkit_core::select::{Axis, Coordinate, Order, Values, analyse};
///
/// let ids = Coordinate::new("/file_id", Values::Ints(vec![1, 2, 3, 2, 3, 4]), Axis::Other);
/// let analysis = analyse(&ids);
/// assert_eq!(analysis.duplicates.extra, 2);
/// assert_eq!(analysis.order, Order::Increasing); // without what is repeated
/// ```
pub fn analyse(coordinate: &Coordinate) -> Analysis {
    let values = &coordinate.values;
    let present: Vec<usize> = coordinate.present().collect();
    let missing = coordinate.len() - present.len();
    let first_infinite = match values {
        Values::Floats { values, .. } => present.iter().copied().find(|&at| values[at].is_infinite()),
        _ => None,
    };
    let strict = strictly(values, &present);
    let (unique, duplicates, sorted) = match strict {
        Some(_) => (present, Duplicates::default(), None),
        None => {
            let sorted = sorted(values, &present);
            let (unique, duplicates) = without_repeats(values, present, &sorted);
            (unique, duplicates, Some(sorted))
        }
    };
    let order = order_of(coordinate, &unique);
    let steps = steps_of(coordinate, &ascending(values, unique, order, sorted));
    Analysis {
        len: coordinate.len(),
        missing,
        first_missing: (0..coordinate.len()).find(|&at| coordinate.is_missing(at)),
        first_infinite,
        duplicates,
        order,
        steps,
    }
}

/// Returns the direction in which all values go, equal ones being none.
fn strictly(values: &Values, positions: &[usize]) -> Option<Ordering> {
    let mut pairs = positions.windows(2).map(|pair| values.compare(pair[0], pair[1]));
    let first = pairs.next().unwrap_or(Ordering::Less);
    (first != Ordering::Equal && pairs.all(|pair| pair == first)).then_some(first)
}

/// Returns positions in ascending order of their values, equal ones in the order of the array.
fn sorted(values: &Values, positions: &[usize]) -> Vec<usize> {
    match values {
        Values::Ints(values) => sorted_by(positions, |at| values[at]),
        Values::UInts(values) => sorted_by(positions, |at| values[at]),
        Values::Floats { values, .. } => sorted_by(positions, |at| float_rank(values[at])),
        Values::Times { values, .. } | Values::Durations(values) => sorted_by(positions, |at| values[at]),
        Values::Texts(values) => sorted_by(positions, |at| values.get(at)),
    }
}

/// Sorts keys beside their positions: looking each up where it lies costs a cache miss a comparison.
fn sorted_by<K: Ord + Send>(positions: &[usize], key: impl Fn(usize) -> K) -> Vec<usize> {
    let mut keyed: Vec<(K, usize)> = positions.iter().map(|&at| (key(at), at)).collect();
    keyed.par_sort_unstable();
    keyed.into_iter().map(|(_, at)| at).collect()
}

/// Returns a number in the order of floats that are no NaN, zeros being equal.
fn float_rank(value: f64) -> i64 {
    // the sign of minus zero goes away
    let bits = (value + 0.0).to_bits().cast_signed();
    bits ^ (((bits >> 63).cast_unsigned()) >> 1).cast_signed()
}

/// Returns the positions of values that are all different in ascending order of their values; `sorted` holds them and
/// repeated ones.
fn ascending(
    values: &Values,
    mut positions: Vec<usize>,
    order: Order,
    sorted: Option<Vec<usize>>,
) -> Vec<usize> {
    match (order, sorted) {
        (Order::Single | Order::Increasing, _) => positions,
        (Order::Decreasing, _) => {
            positions.reverse();
            positions
        }
        (_, Some(mut sorted)) => {
            sorted.dedup_by(|one, other| values.compare(*one, *other) == Ordering::Equal);
            sorted
        }
        // only values in order are not sorted
        (_, None) => positions,
    }
}

/// Returns the positions without those whose value stands earlier, and what was left out.
fn without_repeats(values: &Values, mut positions: Vec<usize>, sorted: &[usize]) -> (Vec<usize>, Duplicates) {
    let mut duplicates = Duplicates::default();
    let mut repeated: Vec<(usize, usize)> = Vec::new();
    for equal in sorted.chunk_by(|&one, &other| values.compare(one, other) == Ordering::Equal) {
        if let [first, again @ ..] = equal
            && !again.is_empty()
        {
            duplicates.values += 1;
            duplicates.extra += again.len();
            repeated.extend(again.iter().map(|&again| (again, *first)));
        }
    }
    repeated.sort_unstable();
    for &(again, first) in &repeated {
        let named = duplicates.repeats.len();
        match duplicates.repeats.last_mut() {
            Some(last) if last.again + last.len == again && last.first + last.len == first => last.len += 1,
            _ if named == REPEATS_MOST => break,
            _ => duplicates.repeats.push(Repeat { first, again, len: 1 }),
        }
    }
    let mut repeated = repeated.iter().map(|&(again, _)| again).peekable();
    positions.retain(|&at| repeated.next_if_eq(&at).is_none());
    (positions, duplicates)
}

/// Returns the order of values that are all different.
fn order_of(coordinate: &Coordinate, positions: &[usize]) -> Order {
    let values = &coordinate.values;
    if positions.len() < 2 {
        return Order::Single;
    }
    let rising = |pair: &[usize]| values.compare(pair[0], pair[1]) == Ordering::Less;
    let rises = positions.windows(2).filter(|pair| rising(pair)).count();
    let falls = positions.len() - 1 - rises;
    if falls == 0 {
        return Order::Increasing;
    }
    if rises == 0 {
        return Order::Decreasing;
    }
    let mostly_rising = rises >= falls;
    let breaking = positions.windows(2).position(|pair| rising(pair) != mostly_rising);
    let at = breaking.map_or(0, |before| positions[before + 1]);
    let breaks = rises.min(falls);
    if coordinate.axis == Axis::Longitude
        && breaks == 1
        && let (Some(&first), Some(&last)) = (positions.first(), positions.last())
        && (values.compare(last, first) == Ordering::Less) == mostly_rising
        && values.distance(first, last).is_some_and(|distance| distance.abs() < 360.0)
    {
        return Order::Seam { at };
    }
    Order::Broken { at, breaks, rising: mostly_rising }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ints(values: &[i64]) -> Coordinate {
        Coordinate::new("/x", Values::Ints(values.to_vec()), Axis::Other)
    }

    #[test]
    fn floats_rank_as_they_compare() {
        let values = [f64::NEG_INFINITY, -2.5, -1e-300, -0.0, 0.0, 5e-324, 1.0, 2.5, f64::INFINITY];
        for one in values {
            for other in values {
                assert_eq!(float_rank(one).cmp(&float_rank(other)), one.partial_cmp(&other).unwrap());
            }
        }
    }

    #[test]
    fn a_block_written_twice_is_one_repeat_and_no_break() {
        let values: Vec<i64> = (0..40).chain(36..40).chain(40..60).collect();
        let analysis = analyse(&ints(&values));
        assert_eq!(
            analysis.duplicates,
            Duplicates { extra: 4, values: 4, repeats: vec![Repeat { first: 36, again: 40, len: 4 }] }
        );
        assert_eq!(analysis.order, Order::Increasing);
    }

    #[test]
    fn blocks_out_of_order_break_where_they_jump_back() {
        let values: Vec<i64> = (31..93).chain(0..31).collect();
        let analysis = analyse(&ints(&values));
        assert_eq!(analysis.order, Order::Broken { at: 62, breaks: 1, rising: true });
        assert_eq!(analysis.duplicates.extra, 0);
    }

    #[test]
    fn longitudes_may_jump_once_round_the_circle() {
        let values: Vec<f64> = (0..180).chain(-180..0).map(f64::from).collect();
        let mut longitude =
            Coordinate::new("/lon", Values::Floats { values, single: false }, Axis::Longitude);
        assert_eq!(analyse(&longitude).order, Order::Seam { at: 180 });
        longitude.axis = Axis::Other;
        assert!(matches!(analyse(&longitude).order, Order::Broken { at: 180, breaks: 1, .. }));
    }

    #[test]
    fn missing_values_are_counted_and_left_out() {
        let values = vec![0.0, f64::NAN, 1.0, f64::NAN, f64::INFINITY];
        let analysis = analyse(&Coordinate::new("/x", Values::Floats { values, single: false }, Axis::Other));
        assert_eq!(
            (analysis.missing, analysis.first_missing, analysis.first_infinite),
            (2, Some(1), Some(4))
        );
        assert_eq!(analysis.duplicates.extra, 0);
        assert_eq!(analysis.order, Order::Increasing);
    }

    #[test]
    fn a_constant_coordinate_is_bounded_in_words() {
        let analysis = analyse(&ints(&vec![5; 100_000]));
        assert_eq!((analysis.duplicates.extra, analysis.duplicates.values), (99_999, 1));
        assert!(analysis.duplicates.repeats.len() <= REPEATS_MOST);
        assert_eq!(analysis.order, Order::Single);
    }

    proptest! {
        #[test]
        fn duplicates_are_those_of_a_set(values in proptest::collection::vec(0i64..30, 0..60)) {
            let analysis = analyse(&ints(&values));
            let distinct: std::collections::BTreeSet<_> = values.iter().collect();
            prop_assert_eq!(analysis.duplicates.extra, values.len() - distinct.len());
            let named: usize = analysis.duplicates.repeats.iter().map(|repeat| repeat.len).sum();
            prop_assert_eq!(named, analysis.duplicates.extra);
            for Repeat { first, again, len } in analysis.duplicates.repeats {
                prop_assert_eq!(&values[first..first + len], &values[again..again + len]);
            }
            let mut seen = std::collections::BTreeSet::new();
            let unique: Vec<_> = values.iter().filter(|value| seen.insert(**value)).collect();
            let sorted = unique.windows(2).all(|pair| pair[0] < pair[1]);
            let falling = unique.windows(2).all(|pair| pair[0] > pair[1]);
            match analysis.order {
                Order::Single => prop_assert!(unique.len() < 2),
                Order::Increasing => prop_assert!(sorted),
                Order::Decreasing => prop_assert!(falling),
                Order::Broken { .. } => prop_assert!(!sorted && !falling),
                Order::Seam { .. } => prop_assert!(false, "only longitudes have seams"),
            }
        }
    }
}
