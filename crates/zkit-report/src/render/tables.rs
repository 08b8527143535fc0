//! Lays out tables: one pass to measure, one to write, so that thousands of rows cost milliseconds.

use std::borrow::Cow;

use crate::render::text::{Mark, Style, push_marked};
use crate::sanitize::sanitize;
use crate::table::{Align, Fit, Table};
use crate::width::{break_anywhere, display_width, push_spaces};

/// Spaces between two columns.
const GAP: usize = 2;

/// The narrowest that a column gets by wrapping.
const NARROWEST: usize = 16;

/// A cell, ready to print, and the columns of the terminal that it takes.
struct Cell<'a> {
    text: Cow<'a, str>,
    width: usize,
}

impl<'a> Cell<'a> {
    fn new(text: &'a str) -> Self {
        let text = sanitize(text);
        let width = display_width(&text);
        Self { text, width }
    }
}

/// Appends a table: headings, a rule, rows.
pub(crate) fn push_table(text: &mut String, table: &Table, style: &Style) {
    let headings: Vec<Cell<'_>> = table.columns.iter().map(|column| Cell::new(&column.heading)).collect();
    let cells: Vec<Cell<'_>> = table.rows().flatten().map(|cell| Cell::new(cell)).collect();
    let widths = column_widths(table, &headings, &cells, style.width);

    let mut heading_line = String::new();
    push_row(&mut heading_line, table, &headings, &widths);
    for line in heading_line.lines() {
        push_marked(text, line, Mark::Heading, style);
        text.push('\n');
    }
    push_rule(text, &widths, style);
    text.reserve((widths.iter().sum::<usize>() + GAP * widths.len()) * cells.len() / widths.len().max(1));
    for row in cells.chunks_exact(widths.len().max(1)) {
        push_row(text, table, row, &widths);
    }
}

/// Returns the width of each column; where the table is too wide, columns that wrap share what is left.
fn column_widths(table: &Table, headings: &[Cell<'_>], cells: &[Cell<'_>], available: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.width).collect();
    for row in cells.chunks_exact(widths.len().max(1)) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width);
        }
    }
    let gaps = GAP * widths.len().saturating_sub(1);
    let wraps = |index: &usize| table.columns[*index].fit == Fit::Wraps;
    let mut wrapping: Vec<usize> = (0..widths.len()).filter(wraps).collect();
    let fixed: usize = (0..widths.len()).filter(|index| !wraps(index)).map(|index| widths[index]).sum();
    // Narrow columns first: what they do not need goes to the wider ones.
    wrapping.sort_by_key(|&index| widths[index]);
    let mut left = available.saturating_sub(fixed + gaps);
    for (position, &index) in wrapping.iter().enumerate() {
        let share = left / (wrapping.len() - position);
        widths[index] = widths[index].min(share.max(NARROWEST));
        left = left.saturating_sub(widths[index]);
    }
    widths
}

/// Appends the line between headings and rows.
fn push_rule(text: &mut String, widths: &[usize], style: &Style) {
    let stroke = if style.unicode { '─' } else { '-' };
    for (index, &width) in widths.iter().enumerate() {
        push_spaces(text, if index == 0 { 0 } else { GAP });
        text.extend(std::iter::repeat_n(stroke, width));
    }
    text.push('\n');
}

/// Appends a row, on as many lines as its longest cell needs.
fn push_row(text: &mut String, table: &Table, row: &[Cell<'_>], widths: &[usize]) {
    if row.iter().zip(widths).all(|(cell, &width)| cell.width <= width) {
        let pieces = row.iter().map(|cell| (cell.text.as_ref(), cell.width));
        push_line(text, table, pieces, widths);
        return;
    }
    let broken: Vec<Vec<&str>> =
        row.iter().zip(widths).map(|(cell, &width)| break_anywhere(&cell.text, width)).collect();
    let lines = broken.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..lines {
        let pieces = broken.iter().map(|cell| {
            let piece = cell.get(line).copied().unwrap_or("");
            (piece, display_width(piece))
        });
        push_line(text, table, pieces, widths);
    }
}

/// Appends one line of cells, aligned; without spaces at its end.
fn push_line<'a>(
    text: &mut String,
    table: &Table,
    pieces: impl Iterator<Item = (&'a str, usize)>,
    widths: &[usize],
) {
    // Spaces are owed until something follows them.
    let mut owed = 0;
    for (((piece, piece_width), &width), column) in pieces.zip(widths).zip(&table.columns) {
        let padding = width.saturating_sub(piece_width);
        let (before, after) = match column.align {
            Align::Left => (0, padding),
            Align::Right => (padding, 0),
        };
        if piece.is_empty() {
            owed += width + GAP;
            continue;
        }
        push_spaces(text, owed + before);
        text.push_str(piece);
        owed = after + GAP;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::render::text::render;
    use crate::table::Column;

    const STYLE: Style = Style { width: 44, color: false, unicode: false };

    fn rendered(table: Table, style: &Style) -> String {
        let mut document = Document::new();
        document.table(table);
        render(&document, style)
    }

    #[test]
    fn numbers_stand_right_and_lines_have_no_spaces_at_the_end() {
        let mut table = Table::new([Column::left("array"), Column::right("chunks"), Column::left("codecs")]);
        table.row(["/t2m", "8,760", "blosc"]).row(["/time", "1", ""]).row(["/\u{6c34}", "", "zstd"]);
        let expected = "\
array  chunks  codecs
-----  ------  ------
/t2m    8,760  blosc
/time       1
/\u{6c34}            zstd
";
        assert_eq!(rendered(table, &STYLE), expected);
    }

    #[test]
    fn wrapping_columns_share_what_is_left() {
        let mut table = Table::new([
            Column::left("array").wraps(),
            Column::right("chunks"),
            Column::left("codecs").wraps(),
        ]);
        table.row(["/surface/temperature_2m", "8,760", "transpose, blosc(zstd, 3, bitshuffle)"]);
        let expected = "\
array              chunks  codecs
-----------------  ------  -----------------
/surface/           8,760  transpose,
temperature_2m             blosc(zstd, 3,
                           bitshuffle)
";
        assert_eq!(rendered(table, &STYLE), expected);
    }

    #[test]
    fn a_table_that_fits_is_not_broken() {
        let mut table = Table::new([Column::left("array").wraps(), Column::right("chunks")]);
        table.row(["/surface/temperature_2m", "8,760"]);
        assert_eq!(rendered(table, &STYLE).lines().count(), 3);
    }

    #[test]
    fn a_name_with_a_newline_stays_in_its_row() {
        let mut table = Table::new([Column::left("array")]);
        table.row(["/a\n\u{1b}[31m"]);
        assert_eq!(rendered(table, &STYLE).lines().last(), Some(r"/a\n\u{1b}[31m"));
    }
}
