//! `corrupt-manifest`: a metadata object of a repository, or a file of references, is damaged.

use zkit_report::{Confidence, Severity, format};

use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::StoreObservation;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "corrupt-manifest",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "a metadata object of a repository, or a file of references, is damaged",
    explanation: "\
A snapshot, manifest or transaction of an Icechunk repository is cut off or is none: all arrays whose chunks
it names are lost with it.

On disk: an object that does not begin with the magic bytes of Icechunk, whose zstd frame goes on behind the
end, or whose flatbuffer leads outside of itself. Of references in parquet, a file that does not begin and end with
PAR1; of those in JSON, entries that are neither bytes nor an address with an offset and a length.

Legitimate: none.

What to do: restore the object from a copy; earlier snapshots may still be whole.",
    check: Check::Store(check),
};

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    if let Some((count, first)) = store.references.as_ref().and_then(|found| found.malformed.as_ref()) {
        let (count, are) = (*count, if *count == 1 { "is" } else { "are" });
        let entries = format::counted(count, "entry", "entries");
        finder
            .store(format!("{entries} {are} no reference, such as {first}"))
            .evidence("count", count)
            .remedy("write the references again");
    }
    let Some(repository) = &store.repository else { return };
    for (key, why) in &repository.damaged {
        finder
            .store(format!("`{key}` is damaged: {why}"))
            .evidence("key", key.clone())
            .remedy("restore the object from a copy; earlier snapshots may still be whole");
    }
    if let Some(why) = &repository.unread {
        finder
            .store(format!("not all metadata objects could be looked into: {why}"))
            .severity(Severity::Warning)
            .remedy("restore access to them, then audit again");
    }
}

#[cfg(test)]
mod tests {
    use zkit_core::engine::Repository;
    use zkit_report::Severity;

    use crate::testing::{REFERENCES, TestStore};

    #[test]
    fn entries_that_are_no_references_are_damage() {
        let references = REFERENCES.replace(r#""ab""#, r#""base64:!""#);
        let found = TestStore::bare().file("refs.json", references.as_bytes());
        let found = found.reference_findings("corrupt-manifest");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        assert!(found[0].message.contains("1 entry is no reference, such as `a/3`"), "{}", found[0].message);
        let whole = TestStore::bare().file("refs.json", REFERENCES.as_bytes());
        assert_eq!(whole.reference_findings("corrupt-manifest"), []);
    }

    #[test]
    fn damaged_objects_are_named() {
        let damaged = vec![("manifests/X".to_owned(), "it is cut off".to_owned())];
        let found = TestStore::new()
            .repository_findings("corrupt-manifest", Repository { damaged, ..Repository::default() });
        assert!(found[0].message.contains("`manifests/X`"), "{}", found[0].message);
    }
}
