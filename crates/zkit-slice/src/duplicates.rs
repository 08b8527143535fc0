//! Values of the joined dimension that stand more than once: which of them stays, and whether they hold the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zkit_core::engine::{affordable_rows, digest_rows};
use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::select::Coordinate;
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
    for duplicate in duplicates {
        duplicate.agreement = agreement(&duplicate.cells, &digests);
    }
    Ok(())
}

fn is_of_dimension(array: &ArrayNode, key: &AxisKey) -> bool {
    array.path.rsplit('/').next() == Some(key.name.as_str())
}

fn agreement(cells: &[Cell], digests: &BTreeMap<Cell, BTreeMap<String, u128>>) -> Agreement {
    let Some((first, others)) = cells.split_first() else { return Agreement::Unknown };
    let Some(first) = digests.get(first) else { return Agreement::Unknown };
    let mut arrays = 0;
    for (path, digest) in first {
        let Some(others) = others.iter().map(|cell| digests.get(cell)?.get(path)).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        if others.iter().any(|other| *other != digest) {
            return Agreement::Differs { array: path.clone() };
        }
        arrays += 1;
    }
    if arrays == 0 { Agreement::Unknown } else { Agreement::Same { arrays } }
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
    let message = format!("{count} of {key} stand in more than one place: {}", lines.join("; "));
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
