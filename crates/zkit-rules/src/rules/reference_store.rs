//! `reference-store`: what looks like a store is references to data in other files.

use zkit_core::hierarchy::StoreKind;
use zkit_report::format;
use zkit_report::{Confidence, Severity};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "reference-store",
    severity: Severity::Info,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "what looks like a store is references to data in other files",
    explanation: "\
A set of kerchunk references or an Icechunk repository with virtual chunks names byte ranges of NetCDF,
GRIB, HDF5 or TIFF files. A copy of it holds no data: it is small, and it breaks when the files it names
move.

On disk: kerchunk JSON (`version` and `refs`, or keys with [url, offset, length]), kerchunk parquet (a
.zmetadata with `record_size` beside refs.N.parq): seen in the metadata. Manifests of Icechunk with locations: these are
read from depth listing on.

Legitimate: always; it is a note, so that nobody takes it for a copy.

What to do: pass --follow-references to check that what it names is there.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    let remedy = "pass --follow-references to check that what it names is there; do not take it for a copy";
    if let Some(references) = &store.references {
        let (chunks, targets) = (references.references.len() as u64, references.targets.len() as u64);
        finder
            .store(format!(
                "{} of its chunks lie in {}, {} in the references themselves",
                format::count(chunks),
                format::counted(targets, "other file", "other files"),
                format::count(references.inline.len() as u64)
            ))
            .evidence("references", chunks)
            .evidence("targets", targets)
            .remedy(remedy);
        if let Some(why) = &references.ungenerated {
            finder
                .store(format!("not all of its references could be generated: {why}"))
                .severity(Severity::Warning)
                .remedy("write the references without `gen`");
        }
    } else if store.hierarchy.kind == StoreKind::KerchunkParquet {
        finder.store("kerchunk references in parquet: its chunks lie in other files").remedy(remedy);
    }
    if let Some(repository) = store.repository.as_ref().filter(|repository| repository.virtual_chunks > 0) {
        let chunks = format::counted(repository.virtual_chunks, "chunk lies", "chunks lie");
        finder.store(format!("{chunks} in files outside of the repository")).remedy(remedy);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{REFERENCES, TestStore};

    #[test]
    fn references_are_told_for_what_they_are() {
        let store = TestStore::bare().file("refs.json", REFERENCES.as_bytes());
        let found = store.reference_findings("reference-store");
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].evidence["references"], &found[0].evidence["targets"]), (&3.into(), &3.into()));
    }
}
