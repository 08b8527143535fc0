//! Documents for people: plain text that fits the terminal.

use crate::document::{Advice, Block, Document, Facts, Item};
use crate::render::{charts, tables};
use crate::sanitize::sanitize;
use crate::width::{break_at_spaces, display_width, push_spaces};

/// How wide text may be, and what the place where it is read can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of a line. Prose and charts never use more than [`PROSE_WIDTH`]; tables do.
    pub width: usize,
    /// Whether to mark headings and keys with ANSI colours; nothing is said by colour alone.
    pub color: bool,
    /// Whether to draw with characters outside ASCII.
    pub unicode: bool,
}

/// The widest that lines of prose get, however wide the terminal: longer ones are hard to read.
pub const PROSE_WIDTH: usize = 100;

impl Style {
    /// Returns the columns that prose and charts may use.
    pub(crate) fn prose_width(&self) -> usize {
        self.width.min(PROSE_WIDTH)
    }
}

/// Returns the document as text that ends with a newline; blocks are one empty line apart.
///
/// Everything that came from a store is [sanitized](sanitize), so that the text holds no control character
/// other than newlines and, with [`Style::color`], the colours set here.
pub fn render(document: &Document, style: &Style) -> String {
    let mut text = String::new();
    let mut follows_title = true;
    for block in document.blocks() {
        if !follows_title {
            text.push('\n');
        }
        push_block(&mut text, block, style);
        follows_title = matches!(block, Block::Title(_));
    }
    text
}

fn push_block(text: &mut String, block: &Block, style: &Style) {
    match block {
        Block::Title(title) => {
            push_marked(text, &sanitize(title), Mark::Heading, style);
            text.push('\n');
        }
        Block::Facts(facts) => push_facts(text, facts, style),
        Block::Table(table) => tables::push_table(text, table, style),
        Block::Paragraph(prose) => push_prose(text, &sanitize(prose), "", style),
        Block::Items(items) => push_items(text, items, style),
        Block::Advice(advice) => push_advice(text, advice, style),
        Block::Histogram(histogram) => charts::push_histogram(text, histogram, style),
        Block::GridMap(map) => charts::push_grid_map(text, map, style),
    }
}

fn push_facts(text: &mut String, facts: &Facts, style: &Style) {
    let keys: Vec<_> = facts.entries.iter().map(|(key, _)| sanitize(key)).collect();
    let key_width = keys.iter().map(|key| display_width(key)).max().unwrap_or(0);
    for (key, (_, value)) in keys.iter().zip(&facts.entries) {
        push_marked(text, key, Mark::Key, style);
        if !value.is_empty() {
            push_spaces(text, key_width - display_width(key) + 2);
            text.push_str(&sanitize(value));
        }
        text.push('\n');
    }
}

fn push_items(text: &mut String, items: &[Item], style: &Style) {
    for item in items {
        push_prose(text, &sanitize(&item.head), "  ", style);
        for line in &item.lines {
            push_prose(text, &sanitize(line), "      ", style);
        }
    }
}

fn push_advice(text: &mut String, advice: &[Advice], style: &Style) {
    for (index, entry) in advice.iter().enumerate() {
        let number = format!("{}. ", index + 1);
        let indent = " ".repeat(number.len());
        let mut what = String::new();
        push_prose(&mut what, &sanitize(&entry.what), &indent, style);
        text.push_str(&number);
        text.push_str(what.trim_start());
        push_prose(text, &sanitize(&entry.why), &indent, style);
        if let Some(command) = &entry.command {
            // Never broken, so that it can be copied.
            text.push_str(&indent);
            push_marked(text, &sanitize(command), Mark::Command, style);
            text.push('\n');
        }
    }
}

/// Appends prose, already sanitized, broken at spaces, each line behind `indent`.
fn push_prose(text: &mut String, prose: &str, indent: &str, style: &Style) {
    let width = style.prose_width().saturating_sub(indent.len());
    for line in break_at_spaces(prose, width) {
        text.push_str(indent);
        text.push_str(&line);
        text.push('\n');
    }
}

/// What a piece of text is, where that may be shown by colour.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mark {
    Heading,
    Key,
    Command,
}

/// Appends text, in the colour of its mark where colours are welcome.
pub(crate) fn push_marked(text: &mut String, piece: &str, mark: Mark, style: &Style) {
    if !style.color {
        text.push_str(piece);
        return;
    }
    text.push_str(match mark {
        Mark::Heading => "\u{1b}[1m",
        Mark::Key => "\u{1b}[2m",
        Mark::Command => "\u{1b}[36m",
    });
    text.push_str(piece);
    text.push_str("\u{1b}[0m");
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { width: 40, color: false, unicode: true };

    fn advised() -> Document {
        let mut document = Document::new();
        document.title("Advice").advice([
            Advice {
                what: "rechunk `/t2m` for reading one place over all times".into(),
                why: "a read touches 8,760 chunks".into(),
                command: Some("zkit recompress /data/a.zarr /data/b.zarr --chunks time=-1".into()),
            },
            Advice { what: "consolidate".into(), why: "opening takes 3,931 requests".into(), command: None },
        ]);
        document
    }

    #[test]
    fn advice_is_numbered_and_commands_stay_on_one_line() {
        let expected = "\
Advice
1. rechunk `/t2m` for reading one place
   over all times
   a read touches 8,760 chunks
   zkit recompress /data/a.zarr /data/b.zarr --chunks time=-1
2. consolidate
   opening takes 3,931 requests
";
        assert_eq!(render(&advised(), &PLAIN), expected);
    }

    #[test]
    fn items_are_indented_and_their_lines_more() {
        let mut document = Document::new();
        document.title("missing-slab").items([Item {
            head: "/data/a.zarr /t2m\n".into(),
            lines: vec!["the last 4 of 16 chunks along `time` are absent".into()],
        }]);
        let expected = "\
missing-slab
  /data/a.zarr /t2m\\n
      the last 4 of 16 chunks along
      `time` are absent
";
        assert_eq!(render(&document, &PLAIN), expected);
    }

    #[test]
    fn colours_add_nothing_but_escapes() {
        let coloured = render(&advised(), &Style { color: true, ..PLAIN });
        assert_ne!(coloured, render(&advised(), &PLAIN));
        let mut plain = coloured;
        for code in ["\u{1b}[1m", "\u{1b}[2m", "\u{1b}[36m", "\u{1b}[0m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, render(&advised(), &PLAIN));
    }

    #[test]
    fn blocks_are_one_empty_line_apart_and_titles_stand_close() {
        let mut document = Document::new();
        document.paragraph("first").title("Second").paragraph("third").facts(Facts::new());
        assert_eq!(render(&document, &PLAIN), "first\n\nSecond\nthird\n");
    }

    #[test]
    fn facts_align_and_show_control_characters() {
        let mut document = Document::new();
        document.facts(Facts::from_iter([("store", "a\u{1b}[2Jb"), ("a\nb", "x"), ("empty", "")]));
        assert_eq!(render(&document, &PLAIN), "store  a\\u{1b}[2Jb\na\\nb   x\nempty\n");
    }
}
