//! Finding what a person asks for, as xarray and pandas do.

use std::ops::Range;

use super::coordinate::{Values, show_duration, show_float};
use super::index::Index;
use super::longitude::{CIRCLE, Circle};
use super::request::{Method, Request};
use super::target::{Asked, Target, number};
use crate::error::{Error, ErrorKind, Result};

/// What was found of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The positions, in the order in which they were asked for; of a range in that of the array.
    pub positions: Positions,
    /// Each single value that was asked for and what was found for it; empty for ranges.
    pub found: Vec<Found>,
    /// Whether one value was asked for and found, so that the dimension can be dropped.
    pub single: bool,
    /// What should be said of it: longitudes that were brought to the stored form, ends that were swapped.
    pub notes: Vec<String>,
}

/// Positions along a dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Positions {
    /// All from the first up to, and without, the last.
    Run(Range<usize>),
    /// These.
    List(Vec<usize>),
}

/// A value that was asked for, and what was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What was asked for, as it was written.
    pub asked: String,
    /// The value that was found.
    pub value: String,
    /// Its first position.
    pub position: usize,
    /// How far they are apart, in the unit of the coordinate (nanoseconds for times); 0 for texts.
    pub distance: f64,
}

impl Positions {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Run(range) => range.len(),
            Self::List(positions) => positions.len(),
        }
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all positions in order.
    pub fn to_vec(&self) -> Vec<usize> {
        match self {
            Self::Run(range) => range.clone().collect(),
            Self::List(positions) => positions.clone(),
        }
    }

    /// Returns a list as a run, if it is one.
    fn of(positions: Vec<usize>) -> Self {
        match positions.first() {
            Some(&first)
                if positions.iter().zip(first..).all(|(&position, expected)| position == expected) =>
            {
                Self::Run(first..first + positions.len())
            }
            _ => Self::List(positions),
        }
    }
}

impl Index<'_> {
    /// Finds what is asked for.
    ///
    /// Values are matched as xarray does: numbers in the coordinate's precision, partial dates as all that they name
    /// unless a method is given, longitudes also in their other form. Ranges include both ends. Errors: `Absent` where
    /// nothing is found, which names the nearest value; `Usage` where a text cannot be read, a method does not fit, or a value
    /// that a method finds stands more than once.
    pub fn find(&self, request: &Request, method: Method, tolerance: Option<&str>) -> Result<Selection> {
        let tolerance = tolerance.map(|text| self.tolerance(text)).transpose()?;
        match request {
            // a text that holds separators is found as it stands first
            Request::Many(parts) if self.holds_text(&parts.join(",")) => {
                self.find_one(&parts.join(","), method, tolerance)
            }
            Request::One(text) => self.find_one(text, method, tolerance),
            Request::Many(texts) => {
                let mut all = Selection {
                    positions: Positions::List(Vec::new()),
                    found: Vec::new(),
                    single: false,
                    notes: Vec::new(),
                };
                let mut positions = Vec::new();
                for text in texts {
                    let one = self.find_one(text, method, tolerance)?;
                    positions.extend(one.positions.to_vec());
                    all.found.extend(one.found);
                    all.notes.extend(one.notes);
                }
                if positions.is_empty() {
                    return Err(self.usage("an empty list selects nothing"));
                }
                all.positions = Positions::of(positions);
                Ok(all)
            }
            Request::Range(_, _) if method != Method::Exact => Err(self
                .usage("methods do not apply to ranges")
                .with_hint("leave the method out, or name single values")),
            Request::Range(from, to) => self.find_range(from.as_deref(), to.as_deref()),
        }
    }

    fn holds_text(&self, text: &str) -> bool {
        matches!(self.coordinate.values, Values::Texts(_))
            && !self.equal(&Target::Text(text.to_owned())).is_empty()
    }

    fn find_one(&self, text: &str, method: Method, tolerance: Option<f64>) -> Result<Selection> {
        let target = match self.read(text, method)? {
            Asked::One(target) => target,
            Asked::All(from, to) => return self.all_between(text, &from, &to),
        };
        let (target, note) = self.meet(text, target, method);
        let notes: Vec<String> = note.into_iter().collect();
        let ranks = self.equal(&target);
        if !ranks.is_empty() && (method == Method::Exact || ranks.len() == 1) {
            let mut positions: Vec<usize> = ranks.map(|rank| self.position(rank)).collect();
            positions.sort_unstable();
            let found = self.found(text, positions[0], &target);
            return Ok(Selection {
                single: positions.len() == 1,
                positions: Positions::of(positions),
                found: vec![found],
                notes,
            });
        }
        if method == Method::Exact {
            return Err(self.absent(text, &target, method));
        }
        let rank = self.inexact(&target, method, ranks.start)?;
        let Some(rank) = rank else { return Err(self.absent(text, &target, method)) };
        let position = self.position(rank);
        let found = self.found(text, position, &target);
        if tolerance.is_some_and(|tolerance| found.distance > tolerance) {
            return Err(self.too_far(&found));
        }
        if self.stands_twice(rank) {
            let message = format!("`{}` holds {} more than once", self.coordinate.path, found.value);
            return Err(self.usage(&message).with_hint("ask for exact values, or drop the duplicates"));
        }
        Ok(Selection {
            positions: Positions::Run(position..position + 1),
            found: vec![found],
            single: true,
            notes,
        })
    }

    /// Returns the rank of the value that a method finds; `above` is the first rank whose value is not smaller.
    fn inexact(&self, target: &Target, method: Method, above: usize) -> Result<Option<usize>> {
        let texts = matches!(self.coordinate.values, Values::Texts(_));
        if texts && method == Method::Nearest {
            return Err(self.usage("texts have no nearest one").with_hint("ask for exact values"));
        }
        if method == Method::Nearest {
            return Ok(self.nearest_round(target));
        }
        if !self.is_rising() && !self.is_falling() {
            let message = format!(
                "`{}` is not in order: there is no value before or behind another",
                self.coordinate.path
            );
            return Err(self.usage(&message).with_hint("use --method nearest, or ask for exact values"));
        }
        // on falling coordinates the position before holds the larger value
        let smaller = (method == Method::Pad) == self.is_rising();
        let below = above.checked_sub(1);
        let above = Some(above).filter(|&rank| rank < self.len());
        Ok(if smaller { below } else { above })
    }

    /// Returns the rank of the nearest value; longitudes are near each other across the seam as well.
    fn nearest_round(&self, target: &Target) -> Option<usize> {
        let plain = self.nearest(target)?;
        let (Some(_), Target::Number { float, .. }) = (Circle::of(self), target) else { return Some(plain) };
        let mut best = (self.distance(self.position(plain), target), plain);
        for turned in [float - CIRCLE, float + CIRCLE] {
            let turned = number(turned);
            if let Some(rank) = self.nearest(&turned) {
                let distance = self.distance(self.position(rank), &turned);
                if distance < best.0 {
                    best = (distance, rank);
                }
            }
        }
        Some(best.1)
    }

    fn stands_twice(&self, rank: usize) -> bool {
        let same =
            |other: usize| self.coordinate.values.compare(self.position(rank), self.position(other)).is_eq();
        rank > 0 && same(rank - 1) || rank + 1 < self.len() && same(rank + 1)
    }

    /// Brings a longitude to the form that is stored; says so if that changes it.
    fn meet(&self, text: &str, target: Target, method: Method) -> (Target, Option<String>) {
        let Some(circle) = Circle::of(self) else { return (target, None) };
        let Target::Number { float, .. } = target else { return (target, None) };
        if !self.equal(&target).is_empty() {
            return (target, None);
        }
        let mut shifts = vec![circle.shift(float)];
        if method == Method::Exact {
            // the ends of a circle are one place: 360 is 0, -180 is 180
            shifts.extend([CIRCLE, -CIRCLE]);
        }
        let met = shifts.iter().map(|shift| (shift, self.rounded(float + shift)));
        let exact = met.clone().find(|(_, turned)| !self.equal(turned).is_empty());
        let chosen = exact.or_else(|| met.clone().next().filter(|(shift, _)| **shift != 0.0));
        match chosen {
            Some((shift, turned)) => {
                let stored = self.show_number(float + shift);
                (turned, Some(format!("longitude {text} is {stored} in the form that is stored")))
            }
            None => (target, None),
        }
    }

    fn find_range(&self, from: Option<&str>, to: Option<&str>) -> Result<Selection> {
        let times = matches!(self.coordinate.values, Values::Times { .. });
        if !self.is_rising() && !self.is_falling() && !times {
            return self.between_labels(from, to);
        }
        let end = |text: Option<&str>| text.map(|text| self.read_end(text)).transpose();
        let (mut low, mut high) = (end(from)?, end(to)?);
        let mut notes = Vec::new();
        if let (Some(circle), Some((one, _)), Some((other, _))) = (Circle::of(self), &low, &high)
            && let (Target::Number { float: west, .. }, Target::Number { float: east, .. }) = (one, other)
            && let Some(selection) = self.round_the_circle(circle, (*west, *east), &mut notes)
        {
            return self.not_empty(selection, from, to);
        }
        // falling coordinates are asked from above, times from below, as pandas has it; where both ends are given, either
        // way is understood
        let from_above = match (&low, &high) {
            (Some((one, _)), Some((other, _))) => is_larger(one, other),
            _ => !times,
        };
        if self.is_falling() && from_above {
            std::mem::swap(&mut low, &mut high);
        }
        let first = low.map_or(0, |(first, _)| self.equal(&first).start);
        let end = high.map_or(self.len(), |(_, last)| self.equal(&last).end);
        let ranks = first..end.max(first);
        let positions = if self.is_rising() || self.is_falling() {
            self.run_of(ranks)
        } else {
            let mut positions: Vec<usize> = ranks.map(|rank| self.position(rank)).collect();
            positions.sort_unstable();
            Positions::of(positions)
        };
        let selection = Selection { positions, found: Vec::new(), single: false, notes };
        self.not_empty(selection, from, to)
    }

    /// Selects longitudes from west to east; `None` where the range lies on the stored circle as it stands.
    fn round_the_circle(
        &self,
        circle: Circle,
        (west, east): (f64, f64),
        notes: &mut Vec<String>,
    ) -> Option<Selection> {
        if self.is_falling() && west > east && circle.shift(west) == 0.0 && circle.shift(east) == 0.0 {
            return None;
        }
        let whole = east - west >= CIRCLE;
        let (from, to) = (west + circle.shift(west), east + circle.shift(east));
        if from <= to && !whole {
            if (from, to) == (west, east) {
                return None;
            }
            notes.push(format!(
                "longitudes {}..{} are {}..{} in the form that is stored",
                show_float(west, false),
                show_float(east, false),
                self.show_number(from),
                self.show_number(to)
            ));
            let ranks = self.equal(&self.rounded(from)).start..self.equal(&self.rounded(to)).end;
            return Some(Selection {
                positions: self.run_of(ranks),
                found: Vec::new(),
                single: false,
                notes: std::mem::take(notes),
            });
        }
        let positions = if whole {
            Positions::Run(0..self.len())
        } else {
            // two runs, the western one first
            let western = self.equal(&self.rounded(from)).start..self.len();
            let eastern = 0..self.equal(&self.rounded(to)).end.min(western.start);
            notes.push(format!(
                "longitudes {}..{} cross the seam: {}.. and ..{} are joined",
                show_float(west, false),
                show_float(east, false),
                self.show_number(from),
                self.show_number(to)
            ));
            Positions::of(western.chain(eastern).map(|rank| self.position(rank)).collect())
        };
        Some(Selection { positions, found: Vec::new(), single: false, notes: std::mem::take(notes) })
    }

    /// Selects from one label to another by position, as pandas does on an index that is not in order.
    fn between_labels(&self, from: Option<&str>, to: Option<&str>) -> Result<Selection> {
        let place = |text: &str| -> Result<usize> {
            let Asked::One(target) = self.read(text, Method::Nearest)? else {
                return Err(self.usage("a range of partial dates needs a coordinate in order"));
            };
            let ranks = self.equal(&target);
            match ranks.len() {
                0 => {
                    let message = format!("`{}` is not in order and has no {text}", self.coordinate.path);
                    Err(Error::new(ErrorKind::Absent, message)
                        .with_hint("a range ends at values that are there; or list the values"))
                }
                1 => Ok(self.position(ranks.start)),
                _ => Err(self.usage(&format!(
                    "`{}` holds {text} more than once and is not in order",
                    self.coordinate.path
                ))),
            }
        };
        let first = from.map(place).transpose()?.unwrap_or(0);
        let last = to.map(place).transpose()?.unwrap_or(self.coordinate.len().saturating_sub(1));
        let positions = Positions::Run(first..(last + 1).max(first));
        let selection = Selection { positions, found: Vec::new(), single: false, notes: Vec::new() };
        self.not_empty(selection, from, to)
    }

    /// Selects all of a partial date.
    fn all_between(&self, text: &str, from: &Target, to: &Target) -> Result<Selection> {
        let ranks = self.equal(from).start..self.equal(to).end;
        if ranks.is_empty() {
            return Err(self.absent(text, from, Method::Exact));
        }
        let mut positions: Vec<usize> = ranks.map(|rank| self.position(rank)).collect();
        positions.sort_unstable();
        let found = positions
            .iter()
            .map(|&at| Found { distance: 0.0, ..self.found(text, at, from) })
            .take(1)
            .collect();
        Ok(Selection { positions: Positions::of(positions), found, single: false, notes: Vec::new() })
    }

    /// Returns the positions of a run of ranks of a coordinate in order, ascending.
    fn run_of(&self, ranks: Range<usize>) -> Positions {
        if ranks.is_empty() {
            return Positions::Run(0..0);
        }
        let (one, other) = (self.position(ranks.start), self.position(ranks.end - 1));
        Positions::Run(one.min(other)..one.max(other) + 1)
    }

    fn not_empty(&self, selection: Selection, from: Option<&str>, to: Option<&str>) -> Result<Selection> {
        if !selection.positions.is_empty() {
            return Ok(selection);
        }
        let asked = format!("{}..{}", from.unwrap_or_default(), to.unwrap_or_default());
        let message =
            format!("`{}` has nothing in {asked}: it holds {}", self.coordinate.path, self.extent());
        Err(Error::new(ErrorKind::Absent, message)
            .with_hint("both ends of a range are included, the smaller one comes first"))
    }

    /// Returns the smallest and the largest value in words.
    fn extent(&self) -> String {
        match self.len() {
            0 => "no value".to_owned(),
            len => format!(
                "{}..{}",
                self.coordinate.show(self.position(0)),
                self.coordinate.show(self.position(len - 1))
            ),
        }
    }

    fn found(&self, asked: &str, position: usize, target: &Target) -> Found {
        let mut distance = self.distance(position, target);
        if Circle::of(self).is_some() {
            distance = distance.min((CIRCLE - distance).abs());
        }
        let distance = if distance.is_finite() { distance } else { 0.0 };
        Found { asked: asked.to_owned(), value: self.coordinate.show(position), position, distance }
    }

    /// Returns the error of a value that a method finds, and that is further off than the tolerance.
    fn too_far(&self, found: &Found) -> Error {
        let away = self.show_distance(found.distance);
        let message = format!(
            "`{}` has no {} within the tolerance: {} (at position {}) is {away} away",
            self.coordinate.path, found.asked, found.value, found.position
        );
        Error::new(ErrorKind::Absent, message).with_hint(format!(
            "raise --tolerance to take it: --tolerance {}={}",
            self.coordinate.name(),
            self.enough(found.distance)
        ))
    }

    /// Returns a tolerance that a distance is within, as it is written.
    fn enough(&self, distance: f64) -> String {
        match self.coordinate.values {
            Values::Times { .. } | Values::Durations(_) => self.show_distance(distance).replace(' ', ""),
            _ => {
                // rounded up, so that what is shown short is not too little
                let digits = 10f64.powf(3.0 - distance.abs().log10().floor().clamp(-300.0, 300.0));
                show_float((distance * digits).ceil() / digits, false)
            }
        }
    }

    /// Returns the error of a value that is not there, with the nearest one.
    fn absent(&self, text: &str, target: &Target, method: Method) -> Error {
        let path = &self.coordinate.path;
        let nearest = match self.coordinate.values {
            Values::Texts(_) => self.nearest_text(text),
            _ => self.nearest_round(target),
        };
        let Some(rank) = nearest else {
            return Error::new(ErrorKind::Absent, format!("`{path}` has no {text}: it holds no value"));
        };
        let found = self.found(text, self.position(rank), target);
        let apart = match self.coordinate.values {
            Values::Texts(_) => String::new(),
            _ => format!(", {} away", self.show_distance(found.distance)),
        };
        let message = format!(
            "`{path}` has no {text}: the nearest is {} (at position {}{apart})",
            found.value, found.position
        );
        Error::new(ErrorKind::Absent, message).with_hint(match self.coordinate.values {
            Values::Texts(_) => "texts are matched as they stand, upper and lower case differ",
            _ if method == Method::Exact => {
                "pass --method nearest to take it, with --tolerance to say how far it may be"
            }
            _ => "on this side of it there is no value: pass --method nearest",
        })
    }

    /// Returns the rank of a text like the one that was asked for: the longest common beginning, case aside.
    fn nearest_text(&self, text: &str) -> Option<usize> {
        let Values::Texts(values) = &self.coordinate.values else { return None };
        let common = |candidate: &[u8]| {
            let same = |(one, other): &(&u8, &u8)| one.eq_ignore_ascii_case(other);
            candidate.iter().zip(text.as_bytes()).take_while(same).count()
        };
        (0..self.len()).rev().max_by_key(|&rank| common(values.get(self.position(rank))))
    }

    fn show_distance(&self, distance: f64) -> String {
        #[expect(clippy::cast_possible_truncation, reason = "a distance between times fits")]
        match self.coordinate.values {
            Values::Times { .. } | Values::Durations(_) => show_duration(distance as i128),
            _ => self.show_number(distance),
        }
    }

    /// Returns a number with as many digits as the coordinate's precision holds.
    fn show_number(&self, value: f64) -> String {
        let single = matches!(self.coordinate.values, Values::Floats { single: true, .. });
        // what subtraction leaves behind the digits of the operands is noise
        let rounded = (value * 1e9).round() / 1e9;
        show_float(if rounded.is_finite() { rounded } else { value }, single)
    }
}

fn is_larger(one: &Target, other: &Target) -> bool {
    match (one, other) {
        (Target::Number { float: one, .. }, Target::Number { float: other, .. }) => one > other,
        (Target::Nanoseconds(one), Target::Nanoseconds(other)) => one > other,
        (Target::Text(one), Target::Text(other)) => one > other,
        _ => false,
    }
}
