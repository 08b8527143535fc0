//! What a command says to people, as data: a list of blocks that a renderer lays out.

use crate::chart::{GridMap, Histogram};
use crate::table::Table;

/// What a command says to people; built block by block, laid out by [`crate::render`].
///
/// Texts are given as they are: the renderer breaks lines, aligns, and shows control characters as escapes.
///
/// ```
/// use zkit_report::{Column, Document, Facts, Table, render::text};
///
/// let mut facts = Facts::new();
/// facts.fact("store", "/data/era5.zarr").fact("arrays", "2");
/// let mut table = Table::new([Column::left("array"), Column::right("chunks")]);
/// table.row(["/t2m", "8,760"]).row(["/time", "1"]);
///
/// let mut document = Document::new();
/// document.facts(facts).table(table);
/// let style = text::Style { width: 80, color: false, unicode: false };
/// assert_eq!(text::render(&document, &style), "\
/// store   /data/era5.zarr
/// arrays  2
///
/// array  chunks
/// -----  ------
/// /t2m    8,760
/// /time       1
/// ");
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    blocks: Vec<Block>,
}

/// One part of a [`Document`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    Title(String),
    Facts(Facts),
    Table(Table),
    Paragraph(String),
    Items(Vec<Item>),
    Advice(Vec<Advice>),
    Histogram(Histogram),
    GridMap(GridMap),
}

impl Document {
    /// Returns an empty document.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line that stands above what follows.
    pub fn title(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Title(text.into()))
    }

    /// Adds keys and their values.
    pub fn facts(&mut self, facts: Facts) -> &mut Self {
        if facts.entries.is_empty() { self } else { self.push(Block::Facts(facts)) }
    }

    /// Adds a table; one without rows is left out.
    pub fn table(&mut self, table: Table) -> &mut Self {
        if table.is_empty() { self } else { self.push(Block::Table(table)) }
    }

    /// Adds a paragraph of prose.
    pub fn paragraph(&mut self, text: impl Into<String>) -> &mut Self {
        self.push(Block::Paragraph(text.into()))
    }

    /// Adds a list of things, each with lines that belong to it.
    pub fn items(&mut self, items: impl IntoIterator<Item = Item>) -> &mut Self {
        let items: Vec<Item> = items.into_iter().collect();
        if items.is_empty() { self } else { self.push(Block::Items(items)) }
    }

    /// Adds a numbered list of what the reader could do.
    pub fn advice(&mut self, advice: impl IntoIterator<Item = Advice>) -> &mut Self {
        let advice: Vec<Advice> = advice.into_iter().collect();
        if advice.is_empty() { self } else { self.push(Block::Advice(advice)) }
    }

    /// Adds bars with labels.
    pub fn histogram(&mut self, histogram: Histogram) -> &mut Self {
        if histogram.bars.is_empty() { self } else { self.push(Block::Histogram(histogram)) }
    }

    /// Adds the map of which chunks of a grid are stored.
    pub fn grid_map(&mut self, map: GridMap) -> &mut Self {
        self.push(Block::GridMap(map))
    }

    /// Returns the parts in the order in which they were added.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn push(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
    }
}

/// Keys and their values, one a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub(crate) entries: Vec<(String, String)>,
}

impl Facts {
    /// Returns an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key and its value.
    pub fn fact(&mut self, key: impl Into<String>, value: impl Into<String>) -> &mut Self {
        self.entries.push((key.into(), value.into()));
        self
    }
}

impl<Key: Into<String>, Value: Into<String>> FromIterator<(Key, Value)> for Facts {
    fn from_iter<Entries: IntoIterator<Item = (Key, Value)>>(entries: Entries) -> Self {
        Self { entries: entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect() }
    }
}

/// One thing of a list: a line that names it, and lines below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is: the place, the name.
    pub head: String,
    /// What is said of it.
    pub lines: Vec<String>,
}

/// Something that the reader could do: what, why, and the command that does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What to do, in the imperative.
    pub what: String,
    /// What that would change, with the numbers that were found.
    pub why: String,
    /// The command line that does it, if there is one.
    pub command: Option<String>,
}
