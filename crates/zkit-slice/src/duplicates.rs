//! Values of the joined dimension that appear more than once: which of them stays, and whether their places hold the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zkit_core::engine::{affordable_rows, digest_rows};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::grid::Region;
use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::{ArrayMetadata, DataType};
use zkit_core::select::{Coordinate, read_decoded};
use zkit_report::format;

use crate::axes::AxisKey;
use crate::coordinates::Means;
use crate::dimensions::Cell;
use crate::sources::Source;

/// In each store so much is decoded in order to compare what stands twice.
const COMPARED_BYTES: u64 = 256 << 20;
/// So many duplicates are named in an error.
const NAMED_MOST: usize = 12;

/// Which of several positions with one value stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The first one; the caller refuses duplicates.
    NoneTwice,
    First,
    Last,
}

impl Keep {
    /// Returns the word of --duplicates for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NoneTwice => "error",
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

/// A value that stands more than once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Duplicate {
    pub(crate) value: String,
    /// Where it stands, in the order of the sources.
    pub(crate) cells: Vec<Cell>,
    pub(crate) agreement: Agreement,
}

/// Whether the arrays hold the same wherever a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// Nobody has looked, or no array could be compared.
    Unknown,
    /// All that were compared: so many.
    Same { arrays: usize },
    /// This array differs, maybe not alone.
    Differs { array: String },
}

/// Returns the positions of a joined coordinate that stay, ascending, and the values that stand more than once.
pub(crate) fn without_repeats(
    coordinate: &Coordinate,
    cells: &[Cell],
    keep: Keep,
) -> (Vec<usize>, Vec<Duplicate>) {
    let mut groups: HashMap<Vec<u8>, Vec<usize>> = HashMap::with_capacity(coordinate.len());
    for at in coordinate.present() {
        groups.entry(coordinate.values.key(at)).or_default().push(at);
    }
    let mut repeated: Vec<Vec<usize>> = groups.into_values().filter(|group| group.len() > 1).collect();
    repeated.sort_unstable();
    let mut stays = vec![true; coordinate.len()];
    let mut duplicates = Vec::with_capacity(repeated.len());
    for group in repeated {
        let kept = match keep {
            Keep::Last => group.len() - 1,
            Keep::First | Keep::NoneTwice => 0,
        };
        for (rank, &at) in group.iter().enumerate() {
            stays[at] = rank == kept;
        }
        duplicates.push(Duplicate {
            value: coordinate.show(group[0]),
            cells: group.iter().map(|&at| cells[at]).collect(),
            agreement: Agreement::Unknown,
        });
    }
    ((0..coordinate.len()).filter(|&at| stays[at]).collect(), duplicates)
}

/// Says of each duplicate whether the arrays hold the same at all its places.
///
/// Of arrays that are many or large, as many are compared as decode to 256 MiB in a store, chosen by their paths.
pub(crate) fn compare(
    sources: &[Source],
    key: &AxisKey,
    duplicates: &mut [Duplicate],
    means: Means<'_>,
) -> Result<()> {
    let mut rows: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for cell in duplicates.iter().flat_map(|duplicate| &duplicate.cells) {
        rows.entry(cell.source).or_default().insert(cell.index);
    }
    let mut digests: BTreeMap<Cell, BTreeMap<String, u128>> = BTreeMap::new();
    for (number, positions) in rows {
        let source = &sources[number];
        let arrays: Vec<&ArrayNode> = source
            .taken
            .iter()
            .filter(|&&array| source.axes.keys_of(array).any(|other| other == key))
            .map(|&array| source.array(array))
            .filter(|array| !is_of_dimension(array, key))
            .collect();
        if arrays.is_empty() {
            continue;
        }
        let arrays = affordable_rows(arrays, &key.name, COMPARED_BYTES / positions.len().max(1) as u64);
        let positions: Vec<u64> = positions.into_iter().map(|at| at as u64).collect();
        let digested = digest_rows(
            source.store()?,
            &arrays,
            &key.name,
            &positions,
            means.resources,
            means.observer,
            means.cancel,
        )?;
        // what cannot be compared is not said to agree
        for rows in digested.into_iter().flatten() {
            for (position, digest) in rows.digests {
                let index = usize::try_from(position).unwrap_or(usize::MAX);
                digests.entry(Cell { source: number, index }).or_default().insert(rows.path.clone(), digest);
            }
        }
    }
    let rows = Rows { sources, key, means };
    for duplicate in duplicates {
        duplicate.agreement = agreement(&duplicate.cells, &digests, &rows)?;
    }
    Ok(())
}

fn is_of_dimension(array: &ArrayNode, key: &AxisKey) -> bool {
    array.path.rsplit('/').next() == Some(key.name.as_str())
}

fn agreement(
    cells: &[Cell],
    digests: &BTreeMap<Cell, BTreeMap<String, u128>>,
    rows: &Rows<'_>,
) -> Result<Agreement> {
    let Some((first_cell, others)) = cells.split_first() else { return Ok(Agreement::Unknown) };
    let Some(first) = digests.get(first_cell) else { return Ok(Agreement::Unknown) };
    let mut arrays = 0;
    for (path, digest) in first {
        let held: Option<Vec<(&Cell, u128)>> =
            others.iter().map(|cell| Some((cell, *digests.get(cell)?.get(path)?))).collect();
        let Some(held) = held else { continue };
        for (cell, other) in held {
            if other != *digest && !rows.decode_alike(path, *first_cell, *cell)? {
                return Ok(Agreement::Differs { array: path.clone() });
            }
        }
        arrays += 1;
    }
    Ok(if arrays == 0 { Agreement::Unknown } else { Agreement::Same { arrays } })
}

/// What stores hold at positions of the joined dimension.
struct Rows<'a> {
    sources: &'a [Source],
    key: &'a AxisKey,
    means: Means<'a>,
}

impl Rows<'_> {
    /// Returns whether rows whose elements are other bytes are read as the same values: times in other units, packed numbers,
    /// zeros of either sign.
    fn decode_alike(&self, path: &str, one: Cell, other: Cell) -> Result<bool> {
        let (Some(a), Some(b)) = (self.array(path, one), self.array(path, other)) else { return Ok(false) };
        let exact = !matches!(a.metadata.data_type, DataType::Float(_));
        if exact && means_the_same(&a.metadata, &b.metadata) {
            return Ok(false);
        }
        let (a, b) = (self.decoded(a, one)?, self.decoded(b, other)?);
        let Some((a, b)) = a.zip(b) else { return Ok(false) };
        Ok(a.same_values(&b))
    }

    fn array(&self, path: &str, cell: Cell) -> Option<&ArrayNode> {
        let source = &self.sources[cell.source];
        source.taken.iter().map(|&array| source.array(array)).find(|array| array.path == path)
    }

    /// Returns a row as readers decode it; `None` where it is large, or of a type that is only bytes.
    fn decoded(&self, array: &ArrayNode, cell: Cell) -> Result<Option<Coordinate>> {
        let mut region = Region::whole(array.metadata.shape());
        let names = array.metadata.dimension_names.as_deref().unwrap_or_default();
        if let Some(along) = names.iter().position(|name| name.as_deref() == Some(self.key.name.as_str())) {
            (region.start[along], region.shape[along]) = (cell.index as u64, 1);
        }
        let store = self.sources[cell.source].store()?;
        match read_decoded(store, array, &region, self.means.resources.memory_bytes, self.means.context()) {
            Ok(row) => Ok(Some(row)),
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::OverBudget) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether equal elements of two arrays are equal values, and others are not.
fn means_the_same(one: &ArrayMetadata, other: &ArrayMetadata) -> bool {
    let keys = ["units", "calendar", "dtype", "scale_factor", "add_offset", "_FillValue", "missing_value"];
    one.data_type == other.data_type
        && one.format == other.format
        && one.fill_value == other.fill_value
        && keys.iter().all(|key| one.attributes.get(key) == other.attributes.get(key))
}

/// Returns the error that names duplicates, their stores, and whether they agree.
pub(crate) fn refused(sources: &[Source], key: &AxisKey, duplicates: &[Duplicate]) -> Error {
    let mut lines = Vec::new();
    for duplicate in duplicates.iter().take(NAMED_MOST) {
        let stores: Vec<&str> = duplicate.cells.iter().map(|cell| sources[cell.source].url()).collect();
        lines.push(format!(
            "{} in {} ({})",
            duplicate.value,
            stores.join(", "),
            agreement_in_words(&duplicate.agreement)
        ));
    }
    if duplicates.len() > NAMED_MOST {
        lines.push(format!("and {} more", duplicates.len() - NAMED_MOST));
    }
    let count = format::counted(duplicates.len() as u64, "value", "values");
    let message = format!("{count} of {key} appear in more than one place: {}", lines.join("; "));
    Error::new(ErrorKind::Mismatch, message)
        .with_hint("pass --duplicates first or --duplicates last to take one of each")
}

/// Returns an agreement in words.
pub(crate) fn agreement_in_words(agreement: &Agreement) -> String {
    match agreement {
        Agreement::Unknown => "not compared".to_owned(),
        Agreement::Same { arrays } => {
            format!("the same in {}", format::counted(*arrays as u64, "array", "arrays"))
        }
        Agreement::Differs { array } => format!("`{array}` differs"),
    }
}
