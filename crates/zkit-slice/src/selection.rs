//! What is taken along each dimension: --sel by values, --isel by positions, points together.

use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::select::{Coordinate, Found, Index, Method, Request, Values, duration_unit, range_in_words};

use crate::args::{MethodArg, OfDimension, SelectionArgs, ToleranceArg};
use crate::axes::AxisKey;
use crate::dimensions::{Dimension, Dimensions};
use crate::named::{is_beside, named, of_column};
use crate::points::Points;

/// The name of the dimension along which points lie.
pub(crate) const POINT: &str = "point";

/// What is taken along one dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Taken {
    /// One position; the dimension is dropped.
    One(usize),
    /// These, in this order.
    Some(Vec<usize>),
    /// One for each point, along the dimension of the points.
    Points(Vec<usize>),
}

/// What is taken along all dimensions, and how it was found.
#[derive(Debug)]
pub(crate) struct Selected {
    /// By dimension; `None` for all of it.
    pub(crate) taken: Vec<Option<Taken>>,
    /// How many points there are.
    pub(crate) points: Option<usize>,
    pub(crate) answers: Vec<Answer>,
    /// The columns of the points that mean no dimension: they are kept along the points.
    pub(crate) beside: Vec<String>,
}

/// What was asked along one dimension, and what was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) key: AxisKey,
    /// What was asked, as it was written.
    pub(crate) asked: String,
    pub(crate) how: How,
    /// How many positions were taken.
    pub(crate) count: usize,
    /// What was taken, in words.
    pub(crate) taken: String,
    /// Each single value and what was found for it.
    pub(crate) found: Vec<Found>,
    /// What distances are counted in.
    pub(crate) unit: Option<String>,
    pub(crate) notes: Vec<String>,
}

/// By what something was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Positions,
    Values(Method),
}

impl How {
    /// Returns the word of the command line for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Positions => "position",
            Self::Values(Method::Exact) => "exact",
            Self::Values(Method::Nearest) => "nearest",
            Self::Values(Method::Pad) => "pad",
            Self::Values(Method::Backfill) => "backfill",
        }
    }
}

/// Finds what is asked for along all dimensions.
///
/// Errors: `Usage` where a dimension is not there, has no values, or is asked for twice; `Absent` where nothing is found.
pub(crate) fn select(
    dimensions: &Dimensions,
    wish: &SelectionArgs,
    points: Option<&Points>,
) -> Result<Selected> {
    check_twice(wish, points)?;
    check_methods(dimensions, wish)?;
    check_tolerances(dimensions, wish, points)?;
    let mut selected = Selected {
        taken: vec![None; dimensions.all.len()],
        points: points.map(Points::len),
        answers: Vec::new(),
        beside: Vec::new(),
    };
    for asked in &wish.isel {
        for at in named(dimensions, &asked.dimension)? {
            let (taken, answer) = by_positions(&dimensions.all[at], &asked.text)?;
            selected.put(at, taken, answer);
        }
    }
    for asked in &wish.sel {
        for at in named(dimensions, &asked.dimension)? {
            let (taken, answer) = by_values(&dimensions.all[at], &asked.text, wish)?;
            selected.put(at, taken, answer);
        }
    }
    if let Some(points) = points {
        if dimensions.all.iter().any(|dimension| dimension.key.name == POINT) {
            let message = "the sources have a dimension `point` already";
            return Err(Error::new(ErrorKind::Usage, message).with_hint("take its positions with --isel"));
        }
        for (column, texts) in &points.columns {
            if is_beside(dimensions, column) {
                selected.beside.push(column.clone());
                continue;
            }
            for at in of_column(dimensions, column)? {
                if selected.taken[at].is_some() {
                    return Err(twice(&dimensions.all[at].key.name));
                }
                let (taken, answer) = by_points(&dimensions.all[at], column, texts, points, wish)?;
                selected.put(at, taken, answer);
            }
        }
        if selected.beside.len() == points.columns.len() {
            // none of them says where the points are
            named(dimensions, &points.columns[0].0)?;
        }
    }
    Ok(selected)
}

impl Selected {
    fn put(&mut self, dimension: usize, taken: Taken, answer: Answer) {
        self.taken[dimension] = Some(taken);
        self.answers.push(answer);
    }
}

fn twice(name: &str) -> Error {
    Error::new(ErrorKind::Usage, format!("the dimension `{name}` is asked for twice"))
        .with_hint("list values in one argument: level=500,850")
}

fn check_twice(wish: &SelectionArgs, points: Option<&Points>) -> Result<()> {
    let columns = points.iter().flat_map(|points| points.columns.iter().map(|(name, _)| name));
    let asked = wish.sel.iter().chain(&wish.isel).map(|asked: &OfDimension| &asked.dimension);
    let mut names: Vec<&String> = asked.chain(columns).collect();
    names.sort_unstable();
    let has = |asked: &[OfDimension], name: &str| asked.iter().any(|asked| asked.dimension == name);
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) if has(&wish.sel, pair[0]) && has(&wish.isel, pair[0]) => {
            let message = format!("the dimension `{}` is asked for by --sel and by --isel", pair[0]);
            Err(Error::new(ErrorKind::Usage, message).with_hint("pass --sel or --isel for it, not both"))
        }
        Some(pair) => Err(twice(pair[0])),
        None => Ok(()),
    }
}

/// Refuses methods and tolerances of dimensions that are not there.
fn check_methods(dimensions: &Dimensions, wish: &SelectionArgs) -> Result<()> {
    let methods = wish.method.iter().filter_map(|method: &MethodArg| method.dimension.as_deref());
    let tolerances =
        wish.tolerance.iter().filter_map(|tolerance: &ToleranceArg| tolerance.dimension.as_deref());
    for name in methods.chain(tolerances) {
        named(dimensions, name)?;
    }
    Ok(())
}

/// Refuses tolerances for all dimensions that suit none of those which are searched by value: a typing error in them would
/// let anything through.
fn check_tolerances(dimensions: &Dimensions, wish: &SelectionArgs, points: Option<&Points>) -> Result<()> {
    let columns = points.iter().flat_map(|points| points.columns.iter().map(|(name, _)| name.as_str()));
    let names: Vec<&str> = wish.sel.iter().map(|asked| asked.dimension.as_str()).chain(columns).collect();
    let mut searched: Vec<&Coordinate> = Vec::new();
    for name in names {
        if is_beside(dimensions, name) && !wish.sel.iter().any(|asked| asked.dimension == name) {
            continue;
        }
        let found = of_column(dimensions, name)?;
        searched.extend(found.iter().filter_map(|&at| dimensions.all[at].coordinate.as_ref()));
    }
    for shared in wish.tolerance.iter().filter(|tolerance| tolerance.dimension.is_none()) {
        if !searched.iter().any(|coordinate| suits(coordinate, &shared.text)) {
            let message = format!("the tolerance `{}` suits nothing that is searched by value", shared.text);
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint("write a number such as 0.25, or a duration such as 6h for times"));
        }
    }
    Ok(())
}

/// Returns whether a tolerance is of the kind of a coordinate: a duration for times, a number for numbers.
fn suits(coordinate: &Coordinate, text: &str) -> bool {
    let counts_time = coordinate.units.as_deref().is_some_and(|unit| duration_unit(unit).is_some());
    if counts_time && !matches!(coordinate.values, Values::Texts(_) | Values::Times { .. }) {
        return true;
    }
    let times = matches!(coordinate.values, Values::Times { .. } | Values::Durations(_));
    !matches!(coordinate.values, Values::Texts(_)) && text.parse::<f64>().is_err() == times
}

/// Positions of one range, at most: each is held, so these take 2 GiB.
const POSITIONS_MOST: usize = 1 << 28;

/// Takes positions: one, several, or a range without its end.
fn by_positions(dimension: &Dimension, text: &str) -> Result<(Taken, Answer)> {
    let length = dimension.length;
    let usage = |what: String| {
        Error::new(ErrorKind::Usage, format!("could not take positions along {}: {what}", dimension.key))
    };
    let number = |part: &str| -> Result<i64> {
        part.trim().parse().map_err(|_| {
            let error = usage(format!("`{part}` is not a whole number"));
            match part.split_once(':') {
                Some((from, to)) => error.with_hint(format!("ranges are written {from}..{to}")),
                None => error.with_hint(format!("to take values, pass --sel {}={part}", dimension.key.name)),
            }
        })
    };
    let position = |part: &str| -> Result<usize> {
        let asked = number(part)?;
        let from_end = |asked: u64| usize::try_from(asked).ok().and_then(|back| length.checked_sub(back));
        let at = if asked < 0 { from_end(asked.unsigned_abs()) } else { usize::try_from(asked).ok() };
        at.filter(|&at| at < length).ok_or_else(|| {
            Error::new(
                ErrorKind::Absent,
                format!("{} has no position {asked}: it has {length}", dimension.key),
            )
        })
    };
    let taken = if let Some((from, to)) = text.split_once("..") {
        // as Python's slices: ends beyond those of the array are clipped
        let end = |part: &str, open: usize| -> Result<usize> {
            if part.trim().is_empty() {
                return Ok(open);
            }
            let asked = number(part)?;
            let steps = usize::try_from(asked.unsigned_abs()).unwrap_or(usize::MAX);
            Ok(if asked < 0 { length.saturating_sub(steps) } else { steps.min(length) })
        };
        let range = end(from, 0)?..end(to, length)?;
        if range.len() > POSITIONS_MOST {
            let message = format!(
                "could not take positions {text} along {}: {} positions, {POSITIONS_MOST} at most",
                dimension.key,
                range.len()
            );
            return Err(
                Error::new(ErrorKind::OverBudget, message).with_hint("take fewer positions, slice by slice")
            );
        }
        let run: Vec<usize> = range.collect();
        if run.is_empty() {
            let message = format!("{} has nothing in positions {text}: it has {length}", dimension.key);
            return Err(Error::new(ErrorKind::Absent, message)
                .with_hint("the end of a range of positions is not included"));
        }
        Taken::Some(run)
    } else if text.contains(',') {
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        let listed: Vec<usize> = parts.map(position).collect::<Result<_>>()?;
        if listed.is_empty() {
            return Err(usage("an empty list takes nothing".to_owned()));
        }
        Taken::Some(listed)
    } else {
        Taken::One(position(text)?)
    };
    let answer = Answer {
        key: dimension.key.clone(),
        asked: text.to_owned(),
        how: How::Positions,
        count: taken.positions().len(),
        taken: in_words(dimension, taken.positions()),
        found: Vec::new(),
        unit: None,
        notes: Vec::new(),
    };
    Ok((taken, answer))
}

impl Taken {
    /// Returns the positions.
    pub(crate) fn positions(&self) -> &[usize] {
        match self {
            Self::One(position) => std::slice::from_ref(position),
            Self::Some(positions) | Self::Points(positions) => positions,
        }
    }
}

/// Returns the values at some positions in words: a run as its ends, a few one by one.
fn in_words(dimension: &Dimension, positions: &[usize]) -> String {
    let show = |at: usize| match &dimension.coordinate {
        Some(coordinate) => coordinate.show(at),
        None => format!("position {at}"),
    };
    match positions {
        [] => "nothing".to_owned(),
        [one] => show(*one),
        [first, .., last] => {
            let run = positions.windows(2).all(|pair| pair[1] == pair[0] + 1);
            match &dimension.coordinate {
                Some(coordinate) if run => range_in_words(coordinate, *first, *last),
                _ if run => format!("positions {first}..{last}"),
                _ if positions.len() <= 6 => {
                    positions.iter().map(|&at| show(at)).collect::<Vec<_>>().join(", ")
                }
                _ => format!("{}, {} .. {}", show(*first), show(positions[1]), show(*last)),
            }
        }
    }
}

fn coordinate_of(dimension: &Dimension) -> Result<&Coordinate> {
    dimension.coordinate.as_ref().ok_or_else(|| {
        let message = format!("could not select along {}: it has no coordinate", dimension.key);
        Error::new(ErrorKind::Usage, message)
            .with_hint(format!("take positions: --isel {}=0", dimension.key.name))
    })
}

/// Returns the method for a dimension: its own, or that for all.
fn method_for(wish: &SelectionArgs, name: &str, coordinate: &Coordinate) -> Method {
    let own = wish.method.iter().rev().find(|method| method.dimension.as_deref() == Some(name));
    if let Some(own) = own {
        return own.method;
    }
    match (&coordinate.values, wish.method.iter().rev().find(|method| method.dimension.is_none())) {
        // texts have no nearest one
        (Values::Texts(_), _) | (_, None) => Method::Exact,
        (_, Some(method)) => method.method,
    }
}

/// Returns the tolerance for a dimension: its own, or one for all that is of its kind, a number or a duration.
fn tolerance_for<'a>(wish: &'a SelectionArgs, name: &str, coordinate: &Coordinate) -> Option<&'a str> {
    let own = wish.tolerance.iter().rev().find(|one| one.dimension.as_deref() == Some(name));
    let shared =
        || wish.tolerance.iter().rev().find(|one| one.dimension.is_none() && suits(coordinate, &one.text));
    own.or_else(shared).map(|tolerance| tolerance.text.as_str())
}

fn by_values(dimension: &Dimension, text: &str, wish: &SelectionArgs) -> Result<(Taken, Answer)> {
    let coordinate = coordinate_of(dimension)?;
    let request = Request::parse(text);
    let range = matches!(request, Request::Range(..));
    let method = if range { Method::Exact } else { method_for(wish, &dimension.key.name, coordinate) };
    let tolerance =
        tolerance_for(wish, &dimension.key.name, coordinate).filter(|_| !range && method != Method::Exact);
    let selection = Index::new(coordinate).find(&request, method, tolerance)?;
    let positions = selection.positions.to_vec();
    let taken = match (selection.single, positions.as_slice()) {
        (true, &[position]) => Taken::One(position),
        _ => Taken::Some(positions),
    };
    let answer = Answer {
        key: dimension.key.clone(),
        asked: text.to_owned(),
        how: How::Values(method),
        count: taken.positions().len(),
        taken: in_words(dimension, taken.positions()),
        found: selection.found,
        unit: unit_of(coordinate),
        notes: selection.notes,
    };
    Ok((taken, answer))
}

/// Returns what distances of a coordinate are counted in.
fn unit_of(coordinate: &Coordinate) -> Option<String> {
    match coordinate.values {
        Values::Times { .. } | Values::Durations(_) => Some("ns".to_owned()),
        Values::Texts(_) => None,
        _ => coordinate.units.clone(),
    }
}

fn by_points(
    dimension: &Dimension,
    column: &str,
    texts: &[String],
    points: &Points,
    wish: &SelectionArgs,
) -> Result<(Taken, Answer)> {
    let coordinate = coordinate_of(dimension)?;
    let method = method_for(wish, &dimension.key.name, coordinate);
    let tolerance = tolerance_for(wish, &dimension.key.name, coordinate).filter(|_| method != Method::Exact);
    let index = Index::new(coordinate);
    let (mut positions, mut found, mut turned) = (Vec::with_capacity(texts.len()), Vec::new(), 0);
    for (at, text) in texts.iter().enumerate() {
        let named = || match &points.names {
            Some(names) => format!("could not find the point `{}`", names[at]),
            None => format!("could not find point {at}"),
        };
        let one = index
            .find(&Request::One(text.clone()), method, tolerance)
            .map_err(|error| error.context(named()))?;
        let &[position] = one.positions.to_vec().as_slice() else {
            let message =
                format!("{}: `{text}` is {} values of {}", named(), one.positions.len(), dimension.key);
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint("write the whole value, or pass --method nearest"));
        };
        positions.push(position);
        found.extend(one.found);
        turned += usize::from(!one.notes.is_empty());
    }
    let mut notes = Vec::new();
    if turned > 0 {
        notes.push(format!("{turned} of {} longitudes were brought to the form that is stored", texts.len()));
    }
    let answer = Answer {
        key: dimension.key.clone(),
        asked: format!("{} points by `{column}`", texts.len()),
        how: How::Values(method),
        count: positions.len(),
        taken: in_words(dimension, &positions),
        found,
        unit: unit_of(coordinate),
        notes,
    };
    Ok((Taken::Points(positions), answer))
}

#[cfg(test)]
mod tests {
    use zkit_core::select::Axis;

    use super::*;
    use crate::dimensions::Place;

    fn dimension(name: &str, values: Values, axis: Axis) -> Dimension {
        let coordinate = Coordinate::new(format!("/{name}"), values, axis);
        Dimension {
            key: AxisKey { scope: String::new(), name: name.to_owned() },
            length: coordinate.len(),
            coordinate: Some(coordinate),
            place: Place::Aligned(Vec::new()),
        }
    }

    fn grid() -> Dimensions {
        let floats = |values: &[f64]| Values::Floats { values: values.to_vec(), single: false };
        Dimensions {
            all: vec![
                dimension("latitude", floats(&[60.0, 50.0, 40.0]), Axis::Latitude),
                dimension("longitude", floats(&[0.0, 90.0, 180.0, 270.0]), Axis::Longitude),
                dimension("step", Values::Ints((0..10).collect()), Axis::Other),
            ],
            duplicates: Vec::new(),
            overridden: Vec::new(),
            along: std::collections::BTreeMap::new(),
        }
    }

    fn wish(sel: &[&str], isel: &[&str], method: &[&str]) -> SelectionArgs {
        SelectionArgs {
            sel: sel.iter().map(|text| text.parse().unwrap()).collect(),
            isel: isel.iter().map(|text| text.parse().unwrap()).collect(),
            method: method.iter().map(|text| text.parse().unwrap()).collect(),
            tolerance: Vec::new(),
            points: None,
            split: None,
        }
    }

    fn positions(text: &str) -> Result<Vec<usize>> {
        Ok(by_positions(&grid().all[2], text)?.0.positions().to_vec())
    }

    #[test]
    fn positions_are_those_of_python() {
        assert_eq!(positions("-1").unwrap(), [9]);
        assert_eq!(positions("8..").unwrap(), [8, 9]);
        assert_eq!(positions("..-8").unwrap(), [0, 1]);
        assert_eq!(positions("-2..99").unwrap(), [8, 9]);
        assert_eq!(positions("3,-1,3").unwrap(), [3, 9, 3]);
        assert_eq!(positions("10").unwrap_err().kind(), ErrorKind::Absent);
        assert_eq!(positions("-11").unwrap_err().kind(), ErrorKind::Absent);
        assert_eq!(positions("5..5").unwrap_err().kind(), ErrorKind::Absent);
        assert_eq!(positions("5.5").unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(positions(",").unwrap_err().kind(), ErrorKind::Usage);
    }

    #[test]
    fn one_value_drops_its_dimension_and_ranges_keep_it() {
        let wish = wish(&["latitude=48", "longitude=-90", "step=2..3"], &[], &["nearest"]);
        let selected = select(&grid(), &wish, None).unwrap();
        assert_eq!(selected.taken[0], Some(Taken::One(1)));
        assert_eq!(selected.taken[1], Some(Taken::One(3)));
        assert_eq!(selected.taken[2], Some(Taken::Some(vec![2, 3])));
        assert_eq!(selected.answers[0].found[0].distance, 2.0);
        assert_eq!(selected.answers[1].notes.len(), 1);
    }

    #[test]
    fn a_dimension_is_asked_for_once_and_exists() {
        let error = |sel: &[&str], isel: &[&str]| select(&grid(), &wish(sel, isel, &[]), None).unwrap_err();
        assert!(error(&["step=1", "step=2"], &[]).to_string().contains("twice"));
        assert_eq!(error(&["step=1"], &["step=1"]).hint().unwrap(), "pass --sel or --isel for it, not both");
        assert!(error(&["lat=1"], &[]).hint().unwrap().starts_with("did you mean latitude?"));
        assert_eq!(error(&[], &["step=5:8"]).hint().unwrap(), "ranges are written 5..8");
        assert_eq!(error(&["latitude=50:55"], &[]).hint().unwrap(), "ranges are written 50..55");
        assert!(error(&["lat=1"], &[]).hint().unwrap().contains("latitude, longitude, step"));
        let unknown = select(&grid(), &wish(&["step=1"], &[], &["lat=nearest"]), None).unwrap_err();
        assert!(unknown.to_string().contains("`lat`"));
    }

    #[test]
    fn a_variable_that_is_no_dimension_is_named_with_its_dimensions() {
        let mut dimensions = grid();
        dimensions.along.insert("init_time".to_owned(), vec!["step".to_owned()]);
        let error = select(&dimensions, &wish(&["init_time=2020"], &[], &[]), None).unwrap_err();
        assert!(error.to_string().contains("it is a variable along `step`"), "{error}");
    }

    #[test]
    fn durations_are_read_in_the_unit_of_the_coordinate() {
        let mut dimensions = grid();
        if let Some(step) = &mut dimensions.all[2].coordinate {
            step.units = Some("hours".to_owned());
        }
        let taken =
            |text: &str| select(&dimensions, &wish(&[text], &[], &[]), None).unwrap().taken[2].clone();
        assert_eq!(taken("step=3h"), Some(Taken::One(3)));
        assert_eq!(taken("step=120min..4"), Some(Taken::Some(vec![2, 3, 4])));
        let unknown = select(&grid(), &wish(&["step=3h"], &[], &[]), None).unwrap_err();
        assert!(unknown.to_string().contains("`3h` is not a number"), "{unknown}");
    }

    #[test]
    fn columns_that_mean_no_dimension_are_kept_beside_and_misspelt_ones_refused() {
        let column = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        let select_by = |columns: Vec<(String, Vec<String>)>| {
            select(&grid(), &wish(&[], &[], &[]), Some(&Points { columns, names: None }))
        };
        let selected = select_by(vec![column("lat", "60"), column("station", "007")]).unwrap();
        assert_eq!(selected.beside, ["station"]);
        assert!(select_by(vec![column("lat", "60"), column("longitud", "0")]).is_err());
        assert!(select_by(vec![column("station", "007")]).is_err());
    }

    #[test]
    fn a_tolerance_that_suits_nothing_is_a_mistake() {
        let found = |sel: &[&str], tolerance: &str| {
            let mut wish = wish(sel, &[], &["nearest"]);
            wish.tolerance = vec![tolerance.parse().unwrap()];
            select(&grid(), &wish, None)
        };
        assert!(found(&["latitude=49"], "2").is_ok());
        assert!(found(&["latitude=49"], "x").unwrap_err().to_string().contains("`x` suits nothing"));
        assert_eq!(found(&["latitude=49"], "6h").unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(found(&[], "2").unwrap_err().kind(), ErrorKind::Usage);
    }

    #[test]
    fn points_are_found_by_what_their_columns_mean() {
        let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let mut points = Points {
            columns: vec![
                ("lat".to_owned(), texts(&["60", "40"])),
                ("lon".to_owned(), texts(&["-180", "0"])),
            ],
            names: Some(texts(&["a", "b"])),
        };
        let selected = select(&grid(), &wish(&[], &[], &[]), Some(&points)).unwrap();
        assert_eq!(selected.taken[0], Some(Taken::Points(vec![0, 2])));
        assert_eq!(selected.taken[1], Some(Taken::Points(vec![2, 0])));
        points.columns[0].1[1] = "41".to_owned();
        let error = select(&grid(), &wish(&[], &[], &[]), Some(&points)).unwrap_err();
        assert!(error.to_string().contains("the point `b`"), "{error}");
    }
}
