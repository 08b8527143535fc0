//! Tables as data.

/// On which side of its column a cell stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers, so that digits of one weight stand above each other.
    Right,
}

/// What a column does when the table is wider than the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Keeps the width of its widest cell.
    Fixed,
    /// Breaks its cells over several lines.
    Wraps,
}

/// One column of a [`Table`]: its heading, and how its cells stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub(crate) heading: String,
    pub(crate) align: Align,
    pub(crate) fit: Fit,
}

impl Column {
    /// Returns a column of words.
    pub fn left(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), align: Align::Left, fit: Fit::Fixed }
    }

    /// Returns a column of numbers.
    pub fn right(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), align: Align::Right, fit: Fit::Fixed }
    }

    /// Returns this column, with cells that may break over several lines where the table is too wide.
    #[must_use]
    pub fn wraps(mut self) -> Self {
        self.fit = Fit::Wraps;
        self
    }
}

/// Rows of cells under headings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub(crate) columns: Vec<Column>,
    /// Row after row; a whole number of rows.
    cells: Vec<String>,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), cells: Vec::new() }
    }

    /// Adds a row; cells that are missing stay empty, cells beyond the last column are left out.
    pub fn row<Cell: Into<String>>(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        let end = self.cells.len() + self.columns.len();
        self.cells.extend(cells.into_iter().take(self.columns.len()).map(Into::into));
        self.cells.resize(end, String::new());
        self
    }

    /// Returns whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the rows, each with one cell a column.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[String]> {
        self.cells.chunks_exact(self.columns.len().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_one_cell_a_column() {
        let mut table = Table::new([Column::left("a"), Column::right("b")]);
        table.row(["1"]).row(["2", "3", "4"]);
        assert_eq!(table.rows().collect::<Vec<_>>(), [["1", ""], ["2", "3"]]);
    }
}
