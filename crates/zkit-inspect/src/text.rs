//! The answer for people: the store, its arrays, what is wrong, what could be better.

use zkit_core::hierarchy::Consolidated;
use zkit_report::{Advice, Column, Document, Facts, Table, format};

use crate::advice::Advised;
use crate::args::Depth;
use crate::detail;
use crate::facts::{ArrayFacts, Inspection, Lanes};
use crate::foreign;
use crate::probe::Probe;
use zkit_core::plan::ReadCost;

/// Defects that the text lists; JSON lists all.
const DEFECTS_MOST: usize = 50;

/// Returns the document of an inspection.
pub(crate) fn document(inspection: &Inspection<'_>, advised: Vec<Advised>) -> Document {
    let mut document = Document::new();
    document.facts(store_facts(inspection));
    if let Some(explanation) = foreign::explanation(inspection.hierarchy) {
        document.paragraph(explanation);
    }
    match inspection.detailed() {
        Some(array) => detail::push(&mut document, array),
        None => {
            document.table(arrays_table(inspection));
        }
    }
    push_reads(&mut document, inspection);
    if let Some(probe) = &inspection.probe {
        push_probe(&mut document, probe);
    }
    push_defects(&mut document, inspection);
    if !advised.is_empty() {
        document.title("Advice");
        document.advice(advised.into_iter().map(|advised| advised.advice).collect::<Vec<Advice>>());
    }
    document
}

fn store_facts(inspection: &Inspection<'_>) -> Facts {
    let hierarchy = inspection.hierarchy;
    let mut facts = Facts::new();
    facts.fact("store", &hierarchy.url).fact("kind", foreign::kind_in_words(hierarchy));
    if let Some(mount) = &inspection.mount {
        facts.fact("mounted by", format!("{} at {}", mount.kind, mount.point.display()));
    }
    if hierarchy.store.is_none() {
        return facts;
    }
    facts.fact(
        "consolidated",
        match hierarchy.consolidated {
            Consolidated::None => "no",
            Consolidated::V2 => "yes, .zmetadata",
            Consolidated::V3 => "yes, in the root's zarr.json",
        },
    );
    let (arrays, groups) = (inspection.arrays.len() as u64, hierarchy.groups.len() as u64);
    let of_all = match hierarchy.arrays.len() as u64 {
        all if inspection.selected => format!(" of {}", format::count(all)),
        _ => String::new(),
    };
    facts.fact(
        "arrays",
        format!("{}{of_all}, in {}", format::count(arrays), format::counted(groups, "group", "groups")),
    );
    let totals = inspection.totals();
    facts.fact("decoded", format::bytes(totals.bytes_decoded));
    match (totals.bytes_stored, totals.chunks_stored) {
        (Some(bytes), Some(chunks)) => {
            let (decoded, stored) = totals.compared;
            let ratio = if decoded > 0 && stored > 0 {
                format!(", ratio {}", format::ratio(decoded, stored))
            } else {
                String::new()
            };
            facts.fact("stored", format!("{}{ratio}", format::bytes(bytes)));
            facts.fact(
                "chunks",
                format!(
                    "{} stored of {} ({})",
                    format::count(chunks),
                    format::count(totals.chunks_total),
                    format::percent(chunks, totals.chunks_total)
                ),
            );
        }
        _ => {
            facts.fact(
                "chunks",
                format!(
                    "{} expected; --depth listing tells which are stored",
                    format::count(totals.chunks_total)
                ),
            );
        }
    }
    facts
}

fn arrays_table(inspection: &Inspection<'_>) -> Table {
    let mut columns = vec![
        Column::left("array").wraps(),
        Column::left("shape").wraps(),
        Column::left("data type"),
        Column::left("chunks").wraps(),
        Column::left("codecs").wraps(),
    ];
    if inspection.depth >= Depth::Listing {
        columns.extend([Column::right("stored"), Column::right("ratio"), Column::right("chunks stored")]);
    }
    if inspection.depth >= Depth::Headers {
        columns.push(Column::right("decode lanes"));
    }
    let mut table = Table::new(columns);
    for array in &inspection.arrays {
        let mut cells = vec![
            array.node.path.clone(),
            shape_in_words(array),
            array.metadata().data_type.to_string(),
            chunks_in_words(array),
            codecs_in_words(array),
        ];
        if inspection.depth >= Depth::Listing {
            cells.extend([
                array.bytes_stored().map_or_else(|| "?".into(), format::bytes),
                ratio_in_words(array),
                stored_in_words(array),
            ]);
        }
        if inspection.depth >= Depth::Headers {
            cells.push(array.lanes().map_or_else(|| "-".into(), lanes_in_words));
        }
        table.row(cells);
    }
    table
}

/// Returns the shape with the names of its dimensions: `time=8760 latitude=721`.
pub(crate) fn shape_in_words(array: &ArrayFacts<'_>) -> String {
    let shape = array.metadata().shape();
    let Some(names) = array.metadata().dimension_names.as_deref().filter(|_| !shape.is_empty()) else {
        return format::shape(shape);
    };
    let parts = shape.iter().zip(names).map(|(length, name)| match name {
        Some(name) => format!("{name}={length}"),
        None => length.to_string(),
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// Returns chunk and shard shapes with their decoded bytes.
fn chunks_in_words(array: &ArrayFacts<'_>) -> String {
    let sized = |shape: &[u64], bytes: Option<u64>| match bytes {
        Some(bytes) => format!("{} ({})", format::shape(shape), format::bytes(bytes)),
        None => format::shape(shape),
    };
    let chunk = sized(&array.chunk_shape, array.chunk_bytes());
    match &array.shard_shape {
        None => chunk,
        Some(shard) => {
            format!("{chunk} in shards of {}", sized(shard, array.metadata().chunk_decoded_bytes()))
        }
    }
}

/// Returns the codecs, outermost last; `bytes` alone says nothing and is left out.
fn codecs_in_words(array: &ArrayFacts<'_>) -> String {
    let texts = array.codecs_of_chunks().iter().map(ToString::to_string).filter(|text| text != "bytes");
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { "-".into() } else { texts.join(" ") }
}

pub(crate) fn ratio_in_words(array: &ArrayFacts<'_>) -> String {
    match (array.decoded_bytes_of_stored(), array.bytes_stored()) {
        (Some(decoded), Some(stored)) if stored > 0 && decoded > 0 => format::ratio(decoded, stored),
        _ => "-".into(),
    }
}

pub(crate) fn stored_in_words(array: &ArrayFacts<'_>) -> String {
    match array.chunks_stored() {
        None => "?".into(),
        Some(stored) if stored == array.chunks_total => format::count(stored),
        Some(stored) => format!(
            "{} of {} ({})",
            format::count(stored),
            format::count(array.chunks_total),
            format::percent(stored, array.chunks_total)
        ),
    }
}

/// Returns the lanes as lanes a chunk x chunks.
fn lanes_in_words(lanes: Lanes) -> String {
    format!(
        "{} x {}",
        format::count(lanes.per_chunk),
        format::count(lanes.whole_array / lanes.per_chunk.max(1))
    )
}

/// Adds what one read of the given access costs.
fn push_reads(document: &mut Document, inspection: &Inspection<'_>) {
    let Some(access) = &inspection.access else { return };
    let reads: Vec<(&ArrayFacts<'_>, ReadCost)> =
        inspection.arrays.iter().filter_map(|array| Some((array, array.read?))).collect();
    document.title(format!("One read by {access}"));
    if reads.is_empty() {
        document.paragraph("No array here has the dimensions that such a read needs.");
        return;
    }
    let mut table = Table::new([
        Column::left("array").wraps(),
        Column::right("wanted"),
        Column::right("chunks"),
        Column::right("decoded"),
        Column::right("amplification"),
    ]);
    for (array, cost) in reads {
        table.row([
            array.node.path.clone(),
            format::bytes(cost.bytes_wanted),
            format::count(cost.chunks_touched),
            format::bytes(cost.bytes_decoded),
            format::ratio(cost.bytes_decoded, cost.bytes_wanted),
        ]);
    }
    document.table(table);
}

fn push_probe(document: &mut Document, probe: &Probe) {
    document.title("Decoding speed, measured on one core");
    let mut table = Table::new([
        Column::left("array").wraps(),
        Column::right("chunks tried"),
        Column::right("decoded"),
        Column::right("stored"),
        Column::left("remarks").wraps(),
    ]);
    let mut any = false;
    for array in &probe.arrays {
        any = true;
        let rate = |bytes: u64| format::bytes_per_second(bytes, array.time);
        table.row([
            array.path.clone(),
            format::count(array.chunks),
            rate(array.decoded_bytes),
            rate(array.stored_bytes),
            array.error.clone().unwrap_or_default(),
        ]);
    }
    if !any {
        document.paragraph("No chunk is stored.");
        return;
    }
    document.table(table);
    if probe.left_out > 0 {
        document.paragraph(format!(
            "{} left out: the time for measuring was over. The estimates are without them.",
            format::counted(probe.left_out, "smaller array was", "smaller arrays were")
        ));
    }
    let mut estimates = Table::new([Column::right("workers"), Column::right("time to decode it all")]);
    for &(workers, seconds) in &probe.estimates {
        let time = std::time::Duration::try_from_secs_f64(seconds).unwrap_or(std::time::Duration::MAX);
        estimates.row([format::count(workers), format::duration(time)]);
    }
    document.table(estimates);
    document.paragraph(
        "Reading is not counted: a disk or network that is slower than the stored rate times the workers sets the pace. Blocks of \
         one chunk count as lanes; readers that decode a chunk on one thread (zarr-python 3 does) have as many lanes as chunks.",
    );
}

fn push_defects(document: &mut Document, inspection: &Inspection<'_>) {
    let defects = &inspection.defects;
    if defects.is_empty() {
        return;
    }
    document.title(format!("Defects ({})", format::count(defects.len() as u64)));
    let mut table = Table::new([
        Column::left("node").wraps(),
        Column::left("rule"),
        Column::left("what was found").wraps(),
    ]);
    for defect in defects.iter().take(DEFECTS_MOST) {
        table.row([defect.path.as_str(), defect.rule, defect.message.as_str()]);
    }
    document.table(table);
    if let Some(more) = defects.len().checked_sub(DEFECTS_MOST).filter(|&more| more > 0) {
        document.paragraph(format!("And {} more; --format json lists them all.", format::count(more as u64)));
    }
}
