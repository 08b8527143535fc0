//! Which crate may import which: the table of ARCHITECTURE.md, held over `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Crates below the commands, with all of ours that each may import.
const FOUNDATION: [(&str, &[&str]); 4] = [
    ("zkit-core", &[]),
    ("zkit-report", &[]),
    ("zkit-rules", &["zkit-core", "zkit-report"]),
    ("zkit-cli", &["zkit-core", "zkit-report"]),
];
const FRONT: &str = "zkit";
const OUTSIDE: [&str; 1] = ["xtask"];

/// Our crates, each with those of ours that it imports outside of tests.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata runs");
    let ours: BTreeSet<String> = metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let imports_of = |package: &cargo_metadata::Package| -> BTreeSet<String> {
        let normal =
            package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
        normal.map(|dependency| dependency.name.clone()).filter(|name| ours.contains(name)).collect()
    };
    metadata.packages.iter().map(|package| (package.name.to_string(), imports_of(package))).collect()
}

fn is_command(name: &str) -> bool {
    name != FRONT && !OUTSIDE.contains(&name) && FOUNDATION.iter().all(|(foundation, _)| *foundation != name)
}

#[test]
fn foundation_crates_import_only_what_lies_below_them() {
    let imports = imports();
    for (name, allowed) in FOUNDATION {
        let imported = imports.get(name).cloned().unwrap_or_default();
        assert!(
            imported.iter().all(|import| allowed.contains(&import.as_str())),
            "{name} imports {imported:?}"
        );
    }
}

#[test]
fn commands_import_the_foundation_and_never_each_other() {
    for (name, imported) in imports().into_iter().filter(|(name, _)| is_command(name)) {
        let foreign: Vec<_> =
            imported.iter().filter(|import| is_command(import) || *import == FRONT).collect();
        assert!(foreign.is_empty(), "{name} imports {foreign:?}");
    }
}

#[test]
fn the_front_binary_links_every_command() {
    let imports = imports();
    let commands: BTreeSet<_> = imports.keys().filter(|name| is_command(name)).cloned().collect();
    assert!(!commands.is_empty());
    assert!(
        imports[FRONT].is_superset(&commands),
        "{FRONT} lacks {:?}",
        commands.difference(&imports[FRONT])
    );
}

#[test]
fn xtask_imports_none_of_ours() {
    for name in OUTSIDE {
        assert!(imports()[name].is_empty(), "{name} imports {:?}", imports()[name]);
    }
}
