//! Draws histograms and grid maps with block characters, or with ASCII where those cannot be shown.

use std::ops::Range;

use crate::chart::{Axis, GridMap, Histogram};
use crate::format;
use crate::render::text::Style;
use crate::sanitize::sanitize;
use crate::width::{display_width, push_spaces};

/// The longest bar, in columns.
const BAR_WIDTH: usize = 40;

/// The most lines of a grid map.
const MAP_HEIGHT: usize = 24;

/// Appends bars with their labels in front and their notes behind.
pub(crate) fn push_histogram(text: &mut String, histogram: &Histogram, style: &Style) {
    let labels: Vec<_> = histogram.bars.iter().map(|bar| sanitize(&bar.label)).collect();
    let notes: Vec<_> = histogram.bars.iter().map(|bar| sanitize(&bar.note)).collect();
    let label_width = labels.iter().map(|label| display_width(label)).max().unwrap_or(0);
    let note_width = notes.iter().map(|note| display_width(note)).max().unwrap_or(0);
    let bar_width = style.prose_width().saturating_sub(label_width + note_width + 4).clamp(8, BAR_WIDTH);
    let largest = histogram.bars.iter().map(|bar| bar.amount).fold(0.0, f64::max);

    for ((bar, label), note) in histogram.bars.iter().zip(&labels).zip(&notes) {
        let drawn = drawn_bar(bar.amount, largest, bar_width, style);
        text.push_str(label);
        push_spaces(text, label_width - display_width(label) + 2);
        text.push_str(&drawn);
        push_spaces(text, bar_width - drawn.chars().count() + 2);
        text.push_str(note);
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
}

/// Returns a bar in eighths of a column (ASCII: whole columns); an amount above zero is always seen.
fn drawn_bar(amount: f64, largest: f64, width: usize, style: &Style) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if amount <= 0.0 {
        return String::new();
    }
    let share = if amount < largest { amount / largest } else { 1.0 };
    if !style.unicode {
        return "#".repeat(rounded(share * width as f64).clamp(1, width));
    }
    let eighths = rounded(share * width as f64 * 8.0).clamp(1, width * 8);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a width: small, not negative"
)]
fn rounded(columns: f64) -> usize {
    columns.round() as usize
}

/// The characters of a map: nothing stored, three steps of some, all stored; something bad.
struct Shades {
    none: char,
    some: [char; 3],
    all: char,
    bad: char,
}

const UNICODE_SHADES: Shades = Shades { none: '·', some: ['░', '▒', '▓'], all: '█', bad: '×' };
const ASCII_SHADES: Shades = Shades { none: '.', some: ['-', '+', '*'], all: '#', bad: 'x' };

impl Shades {
    /// Returns the character of a share; "none" and "all" mean exactly that, whatever the rounding.
    fn of(&self, stored: u64, total: u64) -> char {
        if stored == 0 {
            return self.none;
        }
        if stored >= total {
            return self.all;
        }
        match stored as f64 / total as f64 {
            ..0.34 => self.some[0],
            ..0.67 => self.some[1],
            _ => self.some[2],
        }
    }
}

/// Appends the map of a grid: one line for some rows of chunks, one character for some chunks, then a legend.
pub(crate) fn push_grid_map(text: &mut String, map: &GridMap, style: &Style) {
    let shades = if style.unicode { &UNICODE_SHADES } else { &ASCII_SHADES };
    let row_label = sanitize(&map.rows.name);
    let last_row = map.rows.chunks.saturating_sub(1);
    let number_width = format::count(last_row).len();
    let label_width = display_width(&row_label) + 1 + number_width;
    let map_width = style.prose_width().saturating_sub(label_width + 2).max(8);
    let rows = cells(&map.rows, MAP_HEIGHT);
    let columns = cells(&map.columns, map_width);

    push_spaces(text, label_width + 2);
    text.push_str(&column_heading(&map.columns));
    text.push('\n');
    for (line, row_bins) in rows.iter().enumerate() {
        let name = if line == 0 { row_label.as_ref() } else { "" };
        let first = format::count(map.rows.chunks_in(0, row_bins.start));
        text.push_str(name);
        push_spaces(text, label_width - display_width(name) - first.len());
        text.push_str(&first);
        push_spaces(text, 2);
        for column_bins in &columns {
            let cell = CellCounts::of(map, row_bins, column_bins);
            text.push(if cell.bad > 0 { shades.bad } else { shades.of(cell.stored, cell.total) });
        }
        text.push('\n');
    }
    push_legend(text, map, &rows, &columns, shades);
}

/// Returns the heading above a map: the dimension, and the chunk indices from left to right.
fn column_heading(axis: &Axis) -> String {
    let name = sanitize(&axis.name);
    match axis.chunks {
        0 => format!("{name}: no chunks"),
        1 => format!("{name} 0"),
        chunks => format!("{name} 0..{}", format::count(chunks - 1)),
    }
}

fn push_legend(
    text: &mut String,
    map: &GridMap,
    rows: &[Range<usize>],
    columns: &[Range<usize>],
    shades: &Shades,
) {
    let [few, half, most] = shades.some;
    let (none, all) = (shades.none, shades.all);
    let chunks_of = |axis: &Axis, cells: &[Range<usize>]| {
        cells.first().map_or(0, |bins| axis.chunks_in(bins.start, bins.end))
    };
    let cell = [chunks_of(&map.rows, rows), chunks_of(&map.columns, columns), map.depth.max(1)];
    text.push_str(&format!("{none} none stored  {few}{half}{most} some  {all} all"));
    if map.has_bad() {
        text.push_str(&format!("  {} bad", shades.bad));
    }
    let chunks = cell.iter().fold(1_u64, |product, &length| product.saturating_mul(length));
    if chunks > 1 {
        text.push_str(&format!("  (one character: {} chunks)", format::count(chunks)));
    }
    text.push('\n');
}

/// Returns the bins of each cell along an axis, all of one size but the last, at most `most` cells.
pub(crate) fn cells(axis: &Axis, most: usize) -> Vec<Range<usize>> {
    let bins = axis.bins();
    let step = bins.div_ceil(most).max(1);
    (0..bins).step_by(step).map(|first| first..(first + step).min(bins)).collect()
}

/// The chunks of one cell of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellCounts {
    pub(crate) stored: u64,
    pub(crate) bad: u64,
    pub(crate) total: u64,
}

impl CellCounts {
    /// Counts the chunks of the bins of a cell.
    pub(crate) fn of(map: &GridMap, row_bins: &Range<usize>, column_bins: &Range<usize>) -> Self {
        let rows = map.rows.chunks_in(row_bins.start, row_bins.end);
        let columns = map.columns.chunks_in(column_bins.start, column_bins.end);
        let mut counts =
            Self { stored: 0, bad: 0, total: rows.saturating_mul(columns).saturating_mul(map.depth) };
        for row in row_bins.clone() {
            for column in column_bins.clone() {
                counts.stored = counts.stored.saturating_add(map.stored_in(row, column));
                counts.bad = counts.bad.saturating_add(map.bad_in(row, column));
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::finding::ChunkBox;
    use crate::render::text::render;

    const UNICODE: Style = Style { width: 60, color: false, unicode: true };
    const ASCII: Style = Style { width: 60, color: false, unicode: false };

    fn map_of(rows: u64, columns: u64, stored: impl Fn(u64, u64) -> u64) -> Document {
        let mut map = GridMap::new(Axis::new("time", rows), Axis::new("longitude", columns), 1);
        for row in 0..rows {
            for column in 0..columns {
                map.mark(row, column, stored(row, column));
            }
        }
        let mut document = Document::new();
        document.grid_map(map);
        document
    }

    #[test]
    fn draws_one_character_a_chunk_where_the_grid_is_small() {
        let document = map_of(3, 4, |row, column| u64::from(row > column || row == 2));
        let expected = "        \
longitude 0..3
time 0  ....
     1  #...
     2  ####
. none stored  -+* some  # all
";
        assert_eq!(render(&document, &ASCII), expected);
    }

    #[test]
    fn a_single_missing_chunk_is_seen_in_a_large_grid() {
        let document = map_of(2_400, 100, |row, column| u64::from((row, column) != (1_234, 56)));
        let text = render(&document, &UNICODE);
        assert_eq!(text.matches('▓').count(), 2, "once on the map, once in the legend:\n{text}");
        assert!(!text.lines().any(|line| display_width(line) > 60), "{text}");
        assert!(text.lines().count() <= MAP_HEIGHT + 2, "{text}");
    }

    #[test]
    fn bad_chunks_are_marked_and_the_legend_says_so() {
        let mut map = GridMap::of_grid(&[3, 2, 4], None).unwrap();
        for index in 0..24 {
            map.mark_chunk(&[index / 8, index / 4 % 2, index % 4]);
        }
        map.mark_bad(&ChunkBox { first: vec![1, 0, 2], last: vec![2, 0, 9] });
        let mut document = Document::new();
        document.grid_map(map);
        let expected = "               dimension 2 0..3
dimension 0 0  ####
            1  ##xx
            2  ##xx
. none stored  -+* some  # all  x bad  (one character: 2 chunks)
";
        assert_eq!(render(&document, &ASCII), expected);
    }

    #[test]
    fn a_map_without_chunks_says_so() {
        assert!(render(&map_of(0, 0, |_, _| 0), &ASCII).starts_with("        longitude: no chunks\n"));
    }

    #[test]
    fn bars_are_drawn_to_the_scale_of_the_largest() {
        let mut histogram = Histogram::new();
        histogram.bar("< 1 MiB", 20.0, "20 chunks").bar("1 MiB", 0.01, "few").bar(">", f64::NAN, "none");
        let mut document = Document::new();
        document.histogram(histogram);
        let expected = "\
< 1 MiB  ########################################  20 chunks
1 MiB    #                                         few
>                                                  none
";
        assert_eq!(render(&document, &ASCII), expected);
        assert!(render(&document, &UNICODE).contains("▏ "));
    }
}
