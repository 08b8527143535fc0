//! How far the values of a coordinate are apart, and what is missing between them.

use super::coordinate::{Coordinate, Values, show_duration, show_float};
use crate::calendar::{Calendar, Time};

/// Steps are told from this many values on.
const VALUES_LEAST: usize = 8;
/// Of the differences, so many must be the step itself.
const REGULAR_LEAST: f64 = 0.75;
/// Of the differences, so many may be no whole number of steps.
const ODD_MOST: f64 = 0.05;
/// Two differences are the same if they are so near to each other.
const SAME: f64 = 0.01;
/// The step is the middle of so many differences, evenly spread.
const MEDIAN_OF: usize = 100_000;
/// Gaps that are named at most.
const GAPS_MOST: usize = 64;
/// Gaps between two parts of a year are of so many steps at least.
const SEASON_LEAST: u64 = 10;
/// Nanoseconds of a day.
const DAY: f64 = 86_400e9;

/// How far values are apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// The step, if there is one that most differences are.
    pub step: Option<Step>,
    /// Missing steps; none where there is no step, or where what is missing recurs as if it were meant.
    pub gaps: Gaps,
}

/// What most values are apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// So much, in the unit of the values; nanoseconds for times and durations.
    Even(f64),
    /// So many months of the calendar.
    Months(i64),
}

/// Missing steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// How many gaps there are.
    pub count: usize,
    /// How many steps are missing in all.
    pub missing: u64,
    /// The gaps in ascending order of their values; at most 64 of them.
    pub named: Vec<Gap>,
    /// Whether gaps like these recur so evenly that they are no loss: nights, week-ends, seasons, leap days, or a step that
    /// changes.
    pub recurring: bool,
}

/// Steps missing between two values that should follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The position of the smaller value.
    pub after: usize,
    /// The position of the larger value.
    pub before: usize,
    /// How many steps are missing.
    pub missing: u64,
}

impl Step {
    /// Returns the step in words: `6 h`, `0.25`, `1 month`.
    pub fn show(self, values: &Values) -> String {
        match (self, values) {
            (Self::Months(1), _) => "1 month".to_owned(),
            (Self::Months(months), _) if months % 12 == 0 => match months / 12 {
                1 => "1 year".to_owned(),
                years => format!("{years} years"),
            },
            (Self::Months(months), _) => format!("{months} months"),
            (Self::Even(step), Values::Times { .. } | Values::Durations(_)) => {
                // the median of whole microseconds
                #[expect(clippy::cast_possible_truncation, reason = "a difference of two times fits")]
                let nanoseconds = step as i128;
                show_duration(nanoseconds)
            }
            (Self::Even(step), Values::Floats { single: true, .. }) => show_float(step, true),
            (Self::Even(step), _) => show_float(step, false),
        }
    }
}

/// One difference between neighbours, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stride {
    /// One step.
    One,
    /// So many, more than one.
    Many(u64),
    /// No whole number of steps.
    Odd,
}

/// The differences of a coordinate in steps, counted; only those that are more than one are kept.
#[derive(Debug, Default)]
struct Strides {
    count: usize,
    one: usize,
    odd: usize,
    /// Positions among the sorted values, and how many steps are missing behind them.
    many: Vec<(usize, u64)>,
}

impl Strides {
    fn of(strides: impl Iterator<Item = Stride>) -> Self {
        let mut all = Self::default();
        for (at, stride) in strides.enumerate() {
            all.count += 1;
            match stride {
                Stride::One => all.one += 1,
                Stride::Many(steps) => all.many.push((at, steps - 1)),
                Stride::Odd => all.odd += 1,
            }
        }
        all
    }

    fn are_mostly_one(&self) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a fraction")]
        let fraction = |count: usize| count as f64 / self.count.max(1) as f64;
        fraction(self.one) >= REGULAR_LEAST && fraction(self.odd) <= ODD_MOST
    }
}

/// Tells the steps of values that are all different; `sorted` are their positions in ascending order.
pub(super) fn steps_of(coordinate: &Coordinate, sorted: &[usize]) -> Option<Steps> {
    if !coordinate.values.is_numeric() || sorted.len() < 2 {
        return None;
    }
    let none = Steps { step: None, gaps: Gaps::default() };
    if sorted.len() < VALUES_LEAST {
        return Some(none);
    }
    let Some((step, strides)) = regular(coordinate, sorted) else { return Some(none) };
    let mut gaps = gaps_of(sorted, &strides.many);
    gaps.recurring |= are_seasons(&strides.many, sorted.len()) || are_leap_days(coordinate, step, &gaps);
    Some(Steps { step: Some(step), gaps })
}

/// Returns the step and each difference in it, if most differences are the step.
fn regular(coordinate: &Coordinate, sorted: &[usize]) -> Option<(Step, Strides)> {
    let even = even_steps(coordinate, sorted);
    let long = even.as_ref().is_none_or(|(step, _)| matches!(step, Step::Even(step) if *step > 27.5 * DAY));
    if let (Values::Times { values, calendar }, true) = (&coordinate.values, long)
        && let Some(months) = month_steps(values, *calendar, sorted)
    {
        return Some(months);
    }
    even
}

fn even_steps(coordinate: &Coordinate, sorted: &[usize]) -> Option<(Step, Strides)> {
    let values = &coordinate.values;
    let every = sorted.len().div_ceil(MEDIAN_OF);
    let sampled: Option<Vec<f64>> =
        sorted.windows(2).step_by(every).map(|pair| values.distance(pair[0], pair[1])).collect();
    let step = median(sampled?)?;
    // what rounding alone makes of equal steps
    let noise = match values {
        Values::Floats { values, single } => {
            let largest = sorted.iter().map(|&at| values[at].abs()).fold(0.0, f64::max);
            4.0 * largest * if *single { f64::from(f32::EPSILON) } else { f64::EPSILON }
        }
        Values::Times { .. } | Values::Durations(_) => 2_000.0,
        _ => 0.0,
    };
    let tolerance = SAME * step + noise;
    if step <= 0.0 || !step.is_finite() || noise > step / 4.0 {
        return None;
    }
    let stride = |difference: f64| {
        let times = (difference / step).round();
        if (difference - step).abs() <= tolerance {
            Stride::One
        } else if (1.5..9e15).contains(&times)
            && (difference - times * step).abs() <= tolerance.max(SAME * difference)
        {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number in range"
            )]
            Stride::Many(times as u64)
        } else {
            Stride::Odd
        }
    };
    let distance = |pair: &[usize]| values.distance(pair[0], pair[1]).unwrap_or(f64::NAN);
    let strides = Strides::of(sorted.windows(2).map(|pair| stride(distance(pair))));
    strides.are_mostly_one().then_some((Step::Even(step), strides))
}

/// Months that follow each other at the same time of the month, give or take what its length makes.
fn month_steps(values: &[i128], calendar: Calendar, sorted: &[usize]) -> Option<(Step, Strides)> {
    let (mut earliest, mut latest) = (f64::MAX, f64::MIN);
    let mut months = Vec::with_capacity(sorted.len());
    for &at in sorted {
        let date = Time::from_nanoseconds(values[at])?.date(calendar);
        let day = f64::from(date.day) + f64::from(date.hour) / 24.0;
        (earliest, latest) = (earliest.min(day), latest.max(day));
        months.push(date.year.checked_mul(12)?.checked_add(i64::from(date.month))?);
    }
    // the last day of a month is its 28th to 31st, its middle the 15th to 16th
    if latest - earliest > 3.5 {
        return None;
    }
    let differences: Vec<i64> = months.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut ordered = differences.clone();
    ordered.sort_unstable();
    let step = ordered[ordered.len() / 2];
    if step < 1 {
        return None;
    }
    let stride = |difference: i64| match (difference % step, u64::try_from(difference / step)) {
        (0, Ok(1)) => Stride::One,
        (0, Ok(times)) if times > 1 => Stride::Many(times),
        _ => Stride::Odd,
    };
    let strides = Strides::of(differences.into_iter().map(stride));
    strides.are_mostly_one().then_some((Step::Months(step), strides))
}

fn median(mut differences: Vec<f64>) -> Option<f64> {
    let middle = differences.len() / 2;
    let (_, median, _) =
        (!differences.is_empty()).then(|| differences.select_nth_unstable_by(middle, f64::total_cmp))?;
    Some(*median)
}

fn gaps_of(sorted: &[usize], found: &[(usize, u64)]) -> Gaps {
    let gap = |&(at, missing): &(usize, u64)| Gap { after: sorted[at], before: sorted[at + 1], missing };
    Gaps {
        count: found.len(),
        missing: found.iter().fold(0, |sum: u64, &(_, missing)| sum.saturating_add(missing)),
        named: found.iter().take(GAPS_MOST).map(gap).collect(),
        recurring: step_changes(found) || recur(found),
    }
}

/// Returns whether the same gap stands between three values in a row: the step changes there, as in forecasts whose
/// later hours are further apart.
fn step_changes(found: &[(usize, u64)]) -> bool {
    found.windows(2).any(|pair| pair[0].0 + 1 == pair[1].0 && pair[0].1 == pair[1].1)
}

/// Returns whether gaps come back evenly: about the same length, about as far apart.
fn recur(found: &[(usize, u64)]) -> bool {
    if found.len() < 3 {
        return false;
    }
    let alike = |mut numbers: Vec<u64>| {
        numbers.sort_unstable();
        let middle = numbers[numbers.len() / 2];
        let near = |number: &&u64| number.abs_diff(middle) <= 1 + middle / 10;
        numbers.iter().filter(near).count() * 5 >= numbers.len() * 4
    };
    let lengths = found.iter().map(|&(_, missing)| missing).collect();
    let apart = found.windows(2).map(|pair| (pair[1].0 - pair[0].0) as u64).collect();
    alike(lengths) && alike(apart)
}

/// Returns whether two gaps part three runs of one length, which is that of a part of the year: too few to recur.
fn are_seasons(found: &[(usize, u64)], values: usize) -> bool {
    let &[(first, missing), (second, missing_again)] = found else { return false };
    let near = |one: u64, other: u64| one.abs_diff(other) <= 1 + other / 10;
    let run = (second - first) as u64;
    let outer = [(first + 1) as u64, (values - 1 - second) as u64];
    // the runs at both ends may be cut
    let whole =
        outer.iter().all(|&outer| outer <= run + 1 + run / 10) && outer.iter().any(|&outer| near(outer, run));
    near(missing, missing_again) && missing >= SEASON_LEAST && missing.saturating_mul(4) >= run && whole
}

/// Returns whether what is missing is 29 February alone: models without leap years that are dated by a calendar with them.
fn are_leap_days(coordinate: &Coordinate, step: Step, gaps: &Gaps) -> bool {
    let (Values::Times { values, calendar }, Step::Even(step)) = (&coordinate.values, step) else {
        return false;
    };
    #[expect(clippy::cast_possible_truncation, reason = "a step of a day at most")]
    let step = step as i128;
    let is_leap_day = |nanoseconds: i128| {
        let date = Time::from_nanoseconds(nanoseconds).map(|time| time.date(*calendar));
        date.is_some_and(|date| (date.month, date.day) == (2, 29))
    };
    gaps.count == gaps.named.len()
        && gaps
            .named
            .iter()
            .all(|gap| is_leap_day(values[gap.after] + step) && is_leap_day(values[gap.before] - step))
}

#[cfg(test)]
mod tests {
    use super::super::analyse::analyse;
    use super::super::coordinate::Axis;
    use super::*;
    use crate::calendar::{DateTime, TimeUnits};

    fn times(values: Vec<i128>, calendar: Calendar) -> Coordinate {
        Coordinate::new("/time", Values::Times { values, calendar }, Axis::Time)
    }

    fn hours(values: impl IntoIterator<Item = i64>) -> Coordinate {
        let units = TimeUnits::parse("hours since 1800-01-01", None).unwrap();
        let values = values.into_iter().map(|hour| units.decode(hour).unwrap().nanoseconds()).collect();
        times(values, units.calendar())
    }

    fn dates(dates: impl IntoIterator<Item = (i64, u8, u8)>, calendar: Calendar) -> Coordinate {
        let at = |(year, month, day)| {
            Time::of(DateTime::midnight(year, month, day), calendar).unwrap().nanoseconds()
        };
        times(dates.into_iter().map(at).collect(), calendar)
    }

    fn steps(coordinate: &Coordinate) -> Steps {
        analyse(coordinate).steps.unwrap()
    }

    #[test]
    fn a_missing_day_is_four_missing_steps() {
        let found = steps(&hours((0..100).filter(|step| !(84..88).contains(step)).map(|step| step * 6)));
        assert_eq!(found.step.unwrap().show(&Values::Durations(vec![])), "6 h");
        assert_eq!(found.gaps.named, [Gap { after: 83, before: 84, missing: 4 }]);
        assert!(!found.gaps.recurring);
    }

    #[test]
    fn months_are_regular_in_every_calendar() {
        for calendar in [Calendar::Standard, Calendar::NoLeap, Calendar::Day360, Calendar::Julian] {
            let all = (0..36).map(|month| (2000 + month / 12, u8::try_from(month % 12 + 1).unwrap()));
            let starts = dates(all.clone().map(|(year, month)| (year, month, 1)), calendar);
            let ends = dates(
                all.clone().map(|(year, month)| (year, month, calendar.month_days(year, month))),
                calendar,
            );
            for coordinate in [starts, ends] {
                let found = steps(&coordinate);
                assert_eq!(found.step, Some(Step::Months(1)), "{calendar}");
                assert_eq!(found.gaps.count, 0, "{calendar}");
            }
            let holed =
                dates(all.filter(|&date| date != (2001, 5)).map(|(year, month)| (year, month, 1)), calendar);
            assert_eq!(steps(&holed).gaps.named, [Gap { after: 15, before: 16, missing: 1 }], "{calendar}");
        }
    }

    #[test]
    fn years_are_regular() {
        let found = steps(&dates(
            (1990..2020).filter(|&year| year != 2003).map(|year| (year, 7, 1)),
            Calendar::Standard,
        ));
        assert_eq!(found.step, Some(Step::Months(12)));
        assert_eq!(found.gaps.named, [Gap { after: 12, before: 13, missing: 1 }]);
    }

    #[test]
    fn what_recurs_is_no_loss() {
        let work_days = hours((0..200).filter(|day| day % 7 < 5).map(|day| day * 24));
        assert!(steps(&work_days).gaps.recurring);
        let summers = hours((0..3650).filter(|day| (152..244).contains(&(day % 365))).map(|day| day * 24));
        assert!(steps(&summers).gaps.recurring);
        let forecast = hours((0..90).chain((90..120).step_by(3)));
        assert!(steps(&forecast).gaps.recurring);
    }

    #[test]
    fn two_winters_between_three_summers_are_no_loss() {
        let summer = |year: i64, days: i64| (0..days).map(move |day| (year * 365 + day) * 24);
        let whole = hours(summer(0, 183).chain(summer(1, 183)).chain(summer(2, 183)));
        assert!(steps(&whole).gaps.recurring);
        let cut = hours(summer(0, 183).chain(summer(1, 183)).chain(summer(2, 40)));
        assert!(steps(&cut).gaps.recurring);
        let lost = hours((0..300).chain(312..500).chain(512..1000).map(|day| day * 24));
        assert!(!steps(&lost).gaps.recurring, "runs of other lengths");
    }

    #[test]
    fn leap_days_that_a_model_does_not_have_are_no_loss() {
        let days = |left_out: (u8, u8)| {
            let all = (2019..2022).flat_map(|year| {
                (1..13).flat_map(move |month| {
                    let last = Calendar::ProlepticGregorian.month_days(year, month);
                    (1..=last).map(move |day| (year, month, day))
                })
            });
            dates(all.filter(move |&(_, month, day)| (month, day) != left_out), Calendar::ProlepticGregorian)
        };
        assert!(steps(&days((2, 29))).gaps.recurring);
        let one_day = days((2, 29));
        assert_eq!(steps(&one_day).gaps.missing, 1);
        assert!(
            !steps(&dates((1..32).filter(|&day| day != 9).map(|day| (2020, 1, day)), Calendar::Standard))
                .gaps
                .recurring
        );
    }

    #[test]
    fn irregular_values_have_no_step_and_no_gaps() {
        let pressure = vec![1000, 925, 850, 700, 500, 400, 300, 250, 200, 150, 100, 50];
        let found = steps(&Coordinate::new("/level", Values::Ints(pressure), Axis::Vertical));
        assert_eq!(found, Steps { step: None, gaps: Gaps::default() });
        let eight_days = dates(
            (2000..2004).flat_map(|year| (0..46u16).map(move |composite| (year, composite))).map(
                |(year, composite)| {
                    let day = Time::of(DateTime::midnight(year, 1, 1), Calendar::Standard).unwrap();
                    let date = day
                        .plus(i128::from(composite) * 8 * 86_400_000_000_000)
                        .unwrap()
                        .date(Calendar::Standard);
                    (date.year, date.month, date.day)
                },
            ),
            Calendar::Standard,
        );
        assert_eq!(steps(&eight_days).gaps.count, 0);
    }

    #[test]
    fn rounded_floats_are_regular() {
        let values: Vec<f64> =
            (0..3600).filter(|&at| at != 1000).map(|at| f64::from(at as f32 * 0.1 - 180.0)).collect();
        let found = steps(&Coordinate::new("/lon", Values::Floats { values, single: true }, Axis::Longitude));
        assert_eq!(found.gaps.named, [Gap { after: 999, before: 1000, missing: 1 }]);
        let infinite: Vec<f64> = (0..20).map(f64::from).chain([f64::INFINITY]).collect();
        let _ =
            steps(&Coordinate::new("/x", Values::Floats { values: infinite, single: false }, Axis::Other));
    }
}
