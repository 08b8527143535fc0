//! Pictures of a report as the attributes of SVG elements: maps of chunk grids, lines, squares.

use std::ops::Range;

use crate::chart::{Axis, GridMap};
use crate::format;
use crate::render::charts::{CellCounts, cells};
use crate::sanitize::sanitize;
use crate::series::Series;
use crate::words;

/// The most cells of a map across and down, and the width that it fills.
const COLUMNS_MOST: usize = 120;
const ROWS_MOST: usize = 48;
const MAP_WIDTH: usize = 520;

/// The most characters of a label in a picture.
const LABEL_MOST: usize = 60;

/// The map of a grid.
pub(crate) struct Map {
    pub(crate) place: String,
    pub(crate) caption: String,
    /// `time 0..15 across, latitude 0..7 down`.
    pub(crate) axes: String,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) layers: Vec<Layer>,
    /// Lines between cells; empty where cells are too small for them.
    pub(crate) mesh: String,
    /// Strokes over bad cells, so that colour is not all that tells them.
    pub(crate) hatch: String,
}

/// All cells of one kind, as one path.
pub(crate) struct Layer {
    pub(crate) class: &'static str,
    pub(crate) path: String,
}

/// The kinds of cells that are drawn; cells without a stored chunk are the background.
const CLASSES: [&str; 5] = ["s1", "s2", "s3", "all", "bad"];
const BAD: usize = 4;

/// Returns the kind of a cell, as its position in [`CLASSES`].
fn kind_of(cell: CellCounts) -> Option<usize> {
    if cell.bad > 0 {
        return Some(BAD);
    }
    if cell.stored == 0 {
        return None;
    }
    if cell.stored >= cell.total {
        return Some(3);
    }
    match cell.stored as f64 / cell.total as f64 {
        ..0.34 => Some(0),
        ..0.67 => Some(1),
        _ => Some(2),
    }
}

/// Which dimension goes across: the longer one, so that time runs from left to right and maps are low.
#[derive(Clone, Copy)]
enum Orientation {
    AsGiven,
    Turned,
}

impl Orientation {
    fn of(map: &GridMap) -> Self {
        if map.rows.chunks > map.columns.chunks { Self::Turned } else { Self::AsGiven }
    }

    /// Returns the axis that goes down and the one that goes across.
    fn axes(self, map: &GridMap) -> (&Axis, &Axis) {
        match self {
            Self::AsGiven => (&map.rows, &map.columns),
            Self::Turned => (&map.columns, &map.rows),
        }
    }

    fn count(self, map: &GridMap, down: &Range<usize>, across: &Range<usize>) -> CellCounts {
        match self {
            Self::AsGiven => CellCounts::of(map, down, across),
            Self::Turned => CellCounts::of(map, across, down),
        }
    }
}

/// Draws the map of a grid; runs of equal cells are one rectangle, so that it takes some kilobytes.
pub(crate) fn map(map: &GridMap, place: String, grid_shape: &[u64]) -> Map {
    let orientation = Orientation::of(map);
    let (down, across) = orientation.axes(map);
    let (rows, columns) = (cells(down, ROWS_MOST), cells(across, COLUMNS_MOST));
    let width_of_cell = (MAP_WIDTH / columns.len().max(1)).clamp(4, 22);
    let height_of_cell = if rows.len() == 1 { 22 } else { width_of_cell.min(16) };
    let mut paths = [const { String::new() }; CLASSES.len()];
    let mut hatch = String::new();
    let (mut stored, mut bad, mut total) = (0_u64, 0_u64, 0_u64);
    for (line, row_bins) in rows.iter().enumerate() {
        let mut run: Option<(usize, usize)> = None;
        for column in 0..=columns.len() {
            let kind = columns.get(column).and_then(|column_bins| {
                let cell = orientation.count(map, row_bins, column_bins);
                stored = stored.saturating_add(cell.stored);
                bad = bad.saturating_add(cell.bad);
                total = total.saturating_add(cell.total);
                kind_of(cell)
            });
            if let Some((first, drawn)) = run.filter(|(_, drawn)| kind != Some(*drawn)) {
                let (x, y) = (first * width_of_cell, line * height_of_cell);
                let width = (column - first) * width_of_cell;
                paths[drawn].push_str(&format!("M{x} {y}h{width}v{height_of_cell}h-{width}z"));
                run = None;
            }
            if kind == Some(BAD) {
                let (x, y) = (column * width_of_cell, (line + 1) * height_of_cell);
                hatch.push_str(&format!("M{x} {y}l{width_of_cell}-{height_of_cell}"));
            }
            run = run.or(kind.map(|kind| (column, kind)));
        }
    }
    let (width, height) = (columns.len() * width_of_cell, rows.len() * height_of_cell);
    let layers = CLASSES.into_iter().zip(paths).filter(|(_, path)| !path.is_empty());
    Map {
        place,
        caption: caption(grid_shape, stored, bad, total),
        axes: match down.chunks {
            0 | 1 => format!("{} across", axis_label(across)),
            _ => format!("{} across, {} down", axis_label(across), axis_label(down)),
        },
        width,
        height,
        layers: layers.map(|(class, path)| Layer { class, path }).collect(),
        mesh: mesh(rows.len(), columns.len(), width_of_cell, height_of_cell),
        hatch,
    }
}

/// Returns the grid in words: `16 x 8 chunks, 94 stored (73.4 %), 32 named by findings`.
fn caption(grid_shape: &[u64], stored: u64, bad: u64, total: u64) -> String {
    let mut caption = format!(
        "{} chunks, {} stored ({})",
        format::shape(grid_shape),
        format::count(stored),
        format::percent(stored, total)
    );
    if bad > 0 {
        caption.push_str(&format!(", {} named by findings", format::count(bad)));
    }
    caption
}

fn axis_label(axis: &Axis) -> String {
    let name = words::clipped(&sanitize(&axis.name), LABEL_MOST).into_owned();
    match axis.chunks {
        0 | 1 => name,
        chunks => format!("{name} 0..{}", format::count(chunks - 1)),
    }
}

/// Returns the lines between cells of at least six pixels.
fn mesh(rows: usize, columns: usize, width_of_cell: usize, height_of_cell: usize) -> String {
    if width_of_cell < 6 || height_of_cell < 6 {
        return String::new();
    }
    let (width, height) = (columns * width_of_cell, rows * height_of_cell);
    let down = (1..columns).map(|column| format!("M{} 0v{height}", column * width_of_cell));
    let across = (1..rows).map(|row| format!("M0 {}h{width}", row * height_of_cell));
    down.chain(across).collect()
}

/// A number along a dimension, on a field from 44 to 556 across and 10 to 120 down.
pub(crate) struct Line {
    pub(crate) place: String,
    pub(crate) caption: String,
    /// The value at the upper edge.
    pub(crate) top: String,
    pub(crate) first: String,
    pub(crate) last: String,
    pub(crate) stroke: String,
    pub(crate) area: String,
    /// Points without neighbours, which a line does not show.
    pub(crate) dots: Vec<(String, String)>,
    pub(crate) peak: Option<(String, String)>,
    pub(crate) hovers: Vec<Hover>,
}

/// A field that says what is below it.
pub(crate) struct Hover {
    pub(crate) x: String,
    pub(crate) width: String,
    pub(crate) title: String,
}

const LEFT: f64 = 44.0;
const FIELD: f64 = 512.0;
const BOTTOM: f64 = 120.0;
const RISE: f64 = 110.0;

/// Draws a series; where nothing was read, the line is broken.
pub(crate) fn line(series: &Series, place: String) -> Line {
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite()).map(|value| value.max(0.0));
    let values: Vec<Option<f64>> = series.points.iter().map(|point| finite(point.value)).collect();
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    let top = top_of(highest);
    let step = FIELD / values.len().max(1) as f64;
    let x = |index: usize| LEFT + (index as f64 + 0.5) * step;
    let y = |value: f64| BOTTOM - (value / top).min(1.0) * RISE;

    let (mut stroke, mut area, mut dots) = (String::new(), String::new(), Vec::new());
    let mut index = 0;
    while index < values.len() {
        let length = values[index..].iter().take_while(|value| value.is_some()).count();
        let run: Vec<(f64, f64)> = values[index..index + length]
            .iter()
            .flatten()
            .enumerate()
            .map(|(offset, value)| (x(index + offset), y(*value)))
            .collect();
        if let ([first, .., last], Some(path)) = (run.as_slice(), path(&run)) {
            area.push_str(&format!("{path}L{:.1} {BOTTOM}L{:.1} {BOTTOM}z", last.0, first.0));
            stroke.push_str(&path);
        } else {
            dots.extend(run.iter().map(|&(x, y)| (format!("{x:.1}"), format!("{y:.1}"))));
        }
        index += length.max(1);
    }
    let lowest = values.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let position = values.iter().position(|value| highest > lowest && *value == Some(highest));
    let label = |index: usize| {
        let label = series.points.get(index).map(|point| point.label.as_str()).unwrap_or_default();
        words::clipped(&sanitize(label), LABEL_MOST).into_owned()
    };
    let says = |value: Option<f64>| value.map_or_else(|| "not read".into(), |value| in_words(value, highest));
    Line {
        place,
        caption: line_caption(series, &in_words(highest, highest), position.map(label)),
        top: in_words(top, highest),
        first: label(0),
        last: label(series.points.len().saturating_sub(1)),
        stroke,
        area,
        dots,
        peak: position.map(|at| (format!("{:.1}", x(at)), format!("{:.1}", y(highest)))),
        hovers: values
            .iter()
            .enumerate()
            .map(|(index, value)| Hover {
                x: format!("{:.1}", LEFT + index as f64 * step),
                width: format!("{step:.1}"),
                title: format!("{}: {}", label(index), says(*value)),
            })
            .collect(),
    }
}

/// Returns the path through points; `None` for fewer than two.
fn path(points: &[(f64, f64)]) -> Option<String> {
    let (first, rest) = points.split_first()?;
    let mut path = format!("M{:.1} {:.1}", first.0, first.1);
    rest.iter().for_each(|(x, y)| path.push_str(&format!("L{x:.1} {y:.1}")));
    (!rest.is_empty()).then_some(path)
}

/// Returns what is drawn, and the highest value with its place; that it is the same throughout where it is.
fn line_caption(series: &Series, highest: &str, place: Option<String>) -> String {
    let name = |text: &str| words::clipped(&sanitize(text), LABEL_MOST).into_owned();
    let what = format!("{} along {}", name(&series.what), name(&series.axis));
    match place {
        Some(place) => format!("{what}; highest: {highest} at {place}"),
        None => format!("{what}; {highest} throughout"),
    }
}

/// Returns the value at the upper edge: a share is drawn against the next round share, other numbers against
/// the largest.
fn top_of(highest: f64) -> f64 {
    const ROUND: [f64; 7] = [0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0];
    ROUND.into_iter().find(|&top| highest <= top).unwrap_or(highest)
}

/// Returns a value in words: shares in percent where none is above 1.
fn in_words(value: f64, highest: f64) -> String {
    match value {
        _ if highest > 1.0 => short(value),
        0.0 => "0 %".into(),
        ..0.001 => "< 0.1 %".into(),
        _ => format!("{} %", short((value * 1000.0).round() / 10.0)),
    }
}

/// Returns a number with at most five digits that count.
pub(crate) fn short(number: f64) -> String {
    let magnitude = number.abs();
    if number == 0.0 {
        "0".into()
    } else if !(1e-3..1e6).contains(&magnitude) {
        format!("{number:.3e}")
    } else {
        let decimals = match magnitude {
            10_000.0.. => 0,
            1_000.0.. => 1,
            100.0.. => 2,
            10.0.. => 3,
            _ => 4,
        };
        let digits = format!("{number:.decimals$}");
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.').into() } else { digits }
    }
}

/// One square a store.
pub(crate) struct Strip {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) label: String,
    pub(crate) squares: Vec<Square>,
}

/// A square of a [`Strip`].
pub(crate) struct Square {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) class: &'static str,
    pub(crate) sign: &'static str,
    pub(crate) title: String,
}

/// Squares in a row of a [`Strip`], and the distance from one to the next.
const SQUARES_ACROSS: usize = 44;
const SQUARE_STEP: usize = 25;

/// Lays squares out in rows: of class, sign and title.
pub(crate) fn strip(stores: impl Iterator<Item = (&'static str, &'static str, String)>) -> Strip {
    let squares: Vec<Square> = stores
        .enumerate()
        .map(|(index, (class, sign, title))| Square {
            x: 1 + index % SQUARES_ACROSS * SQUARE_STEP,
            y: 1 + index / SQUARES_ACROSS * SQUARE_STEP,
            class,
            sign,
            title,
        })
        .collect();
    let bad = squares.iter().filter(|square| square.class == "error").count() as u64;
    Strip {
        width: squares.len().min(SQUARES_ACROSS) * SQUARE_STEP,
        height: squares.len().div_ceil(SQUARES_ACROSS) * SQUARE_STEP,
        label: format!(
            "{}, {} of them with errors",
            format::counted(squares.len() as u64, "store", "stores"),
            format::count(bad)
        ),
        squares,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::ChunkBox;
    use crate::samples;
    use crate::series::Point;

    fn series(values: &[Option<f64>]) -> Series {
        let point = |(index, value): (usize, &Option<f64>)| Point { label: index.to_string(), value: *value };
        Series {
            points: values.iter().enumerate().map(point).collect(),
            ..samples::report().series[0].clone()
        }
    }

    #[test]
    fn equal_cells_are_one_rectangle() {
        let mut grid = GridMap::of_grid(&[2, 4], None).unwrap();
        for index in [[0, 0], [0, 1], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3]] {
            grid.mark_chunk(&index);
        }
        grid.mark_bad(&ChunkBox { first: vec![1, 2], last: vec![1, 3] });
        let drawn = map(&grid, "/t2m".into(), &[2, 4]);
        let paths: Vec<_> = drawn.layers.iter().map(|layer| (layer.class, layer.path.as_str())).collect();
        let all = "M0 0h44v16h-44zM66 0h22v16h-22zM0 16h44v16h-44z";
        assert_eq!(paths, [("all", all), ("bad", "M44 16h44v16h-44z")]);
        assert_eq!(drawn.caption, "2 x 4 chunks, 7 stored (87.5 %), 2 named by findings");
        assert_eq!((drawn.width, drawn.height), (88, 32));
    }

    #[test]
    fn the_longer_dimension_goes_across() {
        let mut grid = GridMap::of_grid(&[5, 2], Some(&[Some("time".into()), Some("y".into())])).unwrap();
        grid.mark_chunk(&[4, 0]);
        let drawn = map(&grid, String::new(), &[5, 2]);
        assert_eq!(drawn.axes, "time 0..4 across, y 0..1 down");
        assert_eq!(drawn.layers[0].path, "M88 0h22v16h-22z");
    }

    #[test]
    fn pictures_of_huge_grids_stay_small() {
        let mut grid = GridMap::of_grid(&[1_000_000_007, 999_983, 3], None).unwrap();
        for index in 0..100_000_u64 {
            grid.mark_chunk(&[index * 9_973, index * 7 % 999_983, 0]);
        }
        grid.mark_bad(&ChunkBox { first: vec![0, 0, 0], last: vec![u64::MAX; 3] });
        let drawn = map(&grid, String::new(), &[1_000_000_007, 999_983, 3]);
        let bytes: usize = drawn.layers.iter().map(|layer| layer.path.len()).sum();
        assert!(bytes + drawn.hatch.len() + drawn.mesh.len() < 200_000, "{bytes}");
    }

    #[test]
    fn lines_break_where_nothing_was_read() {
        let drawn = line(&series(&[Some(0.0), Some(1.0), None, Some(0.5)]), String::new());
        assert_eq!(drawn.stroke, "M108.0 120.0L236.0 10.0");
        assert_eq!(drawn.dots, [("492.0".to_owned(), "65.0".to_owned())]);
        assert_eq!(drawn.peak, Some(("236.0".into(), "10.0".into())));
        assert_eq!(drawn.caption, "NaN fraction along time; highest: 100 % at 1");
        assert_eq!(drawn.hovers[2].title, "2: not read");
    }

    #[test]
    fn lines_of_nothing_and_of_nan_are_drawn() {
        assert_eq!(line(&series(&[]), String::new()).stroke, "");
        let odd = line(&series(&[Some(f64::NAN), Some(f64::INFINITY), Some(-1.0), Some(0.0)]), String::new());
        assert_eq!(odd.stroke, "M364.0 120.0L492.0 120.0");
        assert_eq!(odd.caption, "NaN fraction along time; 0 % throughout");
        let land = line(&series(&[Some(0.43), None, Some(0.43)]), String::new());
        assert_eq!(land.caption, "NaN fraction along time; 43 % throughout");
        assert_eq!(land.peak, None);
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (281.4, "281.4"),
            (-0.5, "-0.5"),
            (101_325.0, "101325"),
            (1_234.56, "1234.6"),
            (1e-7, "1.000e-7"),
            (9.969_21e36, "9.969e36"),
            (1200.0, "1200"),
            (f64::INFINITY, "inf"),
        ];
        for (number, expected) in cases {
            assert_eq!(short(number), expected);
        }
    }
}
