//! `unsafe-name`: the name of a node or key leads out of the store, or cannot be a file everywhere.

use std::collections::HashMap;
use zkit_core::engine::Keys;
use zkit_core::store::Store;
use zkit_report::{Confidence, Severity};

use super::shared::{report_defects, report_keys};
use crate::depth::Depth;
use crate::finder::Finder;
use crate::observe::{ArrayObservation, StoreObservation};
use crate::pyramid::levels_outside;
use crate::rule::{Check, Rule};

pub(crate) const RULE: Rule = Rule {
    id: "unsafe-name",
    severity: Severity::Error,
    confidence: Confidence::High,
    depth: Depth::Metadata,
    summary: "the name of a node or key leads out of the store, or cannot be a file everywhere",
    explanation: "\
A name is empty, holds `..`, a NUL or a control character, or two names differ in case alone: a reader that
joins it to a path reads or writes elsewhere, and a copy on another file system loses one of the two. A name
holds characters that nobody sees or that turn the text around them, or is that of a device on Windows: it is
not what it looks like, or cannot be a file there.

An image that names levels outside of the store (`multiscales` with `../../other/0`) leads readers there, too.

On disk: such keys in .zmetadata or in zarr.json's consolidated metadata, such directories, or such
names of members of a zip file.

Legitimate: blanks, dots inside names and letters of any script are fine.

What to do: rename the node, and consolidate again. Do not copy the store with tools that follow such names.",
    check: Check::Store(check),
};

/// Names that a finding holds.
const EXAMPLES_MOST: usize = 3;

fn check(store: &StoreObservation<'_>, finder: &mut Finder<'_>) {
    report_defects(store, finder, "unsafe-name", "rename the node, then consolidate the metadata again");
    if let Some(Store::Zip(zip)) = &store.hierarchy.store {
        let names = zip.unsafe_names();
        let examples = names.iter().take(EXAMPLES_MOST).cloned().collect();
        let told = (
            "members of the zip file would be unpacked outside of their folder",
            "do not unpack the zip file; zip the store again without them",
        );
        report_keys(finder, None, &Keys { count: names.len() as u64, examples }, told);
    }
    for group in &store.hierarchy.groups {
        let outside = levels_outside(group);
        let Some(first) = outside.first() else { continue };
        let more = if outside.len() > 1 { format!(" and {} more", outside.len() - 1) } else { String::new() };
        finder
            .array(
                &group.path,
                format!("its `multiscales` names levels outside of the store: `{first}`{more}"),
            )
            .evidence("levels", outside)
            .remedy("name arrays below this group in multiscales, and copy what lies outside into the store");
    }
    let mut folded: HashMap<String, &str> = HashMap::new();
    let groups = store.hierarchy.groups.iter().map(|group| group.path.as_str());
    for path in store.arrays.iter().map(ArrayObservation::path).chain(groups) {
        // what lies below is no other fault
        let name = path.rsplit('/').next().unwrap_or(path);
        let (what, severity) = if name.chars().any(char::is_control) {
            ("its name holds control characters", Severity::Error)
        } else if name.chars().any(is_unseen) {
            ("its name holds characters that are not seen, or turn the text around them", Severity::Warning)
        } else if is_reserved(name) {
            // what is auxiliary is often called so on purpose
            let severity = if name.eq_ignore_ascii_case("aux") { Severity::Info } else { Severity::Warning };
            ("its name is that of a device on Windows: no file can have it there", severity)
        } else {
            continue;
        };
        finder
            .array(path, what)
            .severity(severity)
            .remedy("rename the node, then consolidate the metadata again");
    }
    for array in &store.arrays {
        let path = array.path();
        if let Some(other) = folded.insert(path.to_lowercase(), path) {
            finder
                .array(
                    path,
                    format!("its name and `{other}` differ in case alone: some file systems keep only one"),
                )
                .severity(Severity::Warning)
                .remedy("rename one of the two");
        }
    }
}

/// Returns whether a character has no shape of its own and steers the text: writing directions, blanks of no width. Joiners
/// are left out, which words of several scripts are written with. Source: Unicode TR 36, "Bidirectional text spoofing".
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// Returns whether Windows keeps a name for a device, with any extension. Source: "Naming files, paths, and namespaces".
fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_uppercase();
    let numbered = stem.strip_prefix("COM").or(stem.strip_prefix("LPT"));
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL")
        || numbered.is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
}

#[cfg(test)]
mod tests {
    use zkit_report::Severity;

    use crate::testing::{TestStore, v2_array, zip_of};

    #[test]
    fn levels_of_an_image_outside_of_the_store_are_found() {
        let image = |level: &str| {
            let attributes =
                format!(r#"{{"multiscales": [{{"datasets": [{{"path": "0"}}, {{"path": "{level}"}}]}}]}}"#);
            let store = TestStore::new().file("g/.zgroup", br#"{"zarr_format": 2}"#);
            store.file("g/.zattrs", attributes.as_bytes()).findings("unsafe-name")
        };
        for level in ["../../outside/0", "a/../../../x", "/etc/0", "s3://bucket/0"] {
            assert_eq!(image(level).len(), 1, "{level}");
        }
        assert_eq!(image("../other/0"), []);
    }

    #[test]
    fn members_of_a_zip_file_that_lead_out_are_found() {
        let group: &[u8] = br#"{"zarr_format":2}"#;
        let bytes = zip_of(&[(".zgroup", group), ("../../x", b"x"), ("/abs/x", b"x"), ("a/0", b"x")]);
        let store = TestStore::bare().file("a.zip", &bytes);
        let found = store.zip_findings("unsafe-name");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].severity, &found[0].evidence["count"]), (Severity::Error, &2.into()));
        assert!(store.zip_findings("store-in-subfolder").is_empty());
    }

    #[test]
    fn a_name_that_leads_out_is_found_in_consolidated_metadata() {
        let consolidated = format!(
            r#"{{"zarr_consolidated_format":1,"metadata":{{".zgroup":{{"zarr_format":2}},"../../etc/.zarray":{}}}}}"#,
            v2_array(&[4], &[2])
        );
        let found = TestStore::new().file(".zmetadata", consolidated.as_bytes()).findings("unsafe-name");
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn names_that_differ_in_case_alone_collide_on_some_disks() {
        let array = v2_array(&[4], &[2]);
        let store = TestStore::new().array("T", &array).array("t", &array).array("u", &array);
        let found = store.findings("unsafe-name");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].array.as_deref(), Some("/t"));
    }

    #[test]
    fn names_that_are_not_what_they_look_like_and_names_of_devices_are_found() {
        let array = v2_array(&[4], &[2]);
        let store = TestStore::new();
        let store = ["a\u{202e}b", "c\u{200b}", "NUL", "com1.x", "null", "com", "کتاب\u{200c}ها"]
            .iter()
            .fold(store, |store, name| store.array(name, &array));
        let found = store.findings("unsafe-name");
        let mut names: Vec<_> = found.iter().filter_map(|finding| finding.array.as_deref()).collect();
        names.sort_unstable_by_key(|name| (name.len(), *name));
        assert_eq!(names, ["/NUL", "/c\u{200b}", "/a\u{202e}b", "/com1.x"]);
        assert!(found.iter().all(|finding| finding.severity == Severity::Warning));
    }
}
