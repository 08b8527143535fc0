//! The order of core's modules: each imports only those above it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, ItemMod, ItemUse, Macro, UseTree};

use crate::fixtures::root;

/// From the ground up, as ARCHITECTURE.md lists them.
const ORDER: [&str; 13] = [
    "location",
    "store",
    "grid",
    "metadata",
    "hierarchy",
    "kernels",
    "codec",
    "read",
    "calendar",
    "select",
    "plan",
    "engine",
    "publish",
];
/// What every module may import; these import only each other.
const COMMON: [&str; 4] = ["error", "cancel", "event", "units"];

#[test]
fn a_module_of_core_imports_only_those_above_it() {
    let source = root().join("crates/zkit-core/src");
    let mut wrong = Vec::new();
    for file in rust_files(&source) {
        let path = module_path(&source, &file);
        let Some(module) = path.first().cloned() else { continue };
        for import in imports_of(&file, path) {
            if import != module && !may_import(&module, &import) {
                wrong.push(format!("{}: `{module}` imports `{import}`", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_of_core_has_its_place_in_the_order() {
    let source = root().join("crates/zkit-core/src");
    let modules: BTreeSet<_> =
        rust_files(&source).iter().filter_map(|file| module_path(&source, file).into_iter().next()).collect();
    let unknown: Vec<_> = modules
        .iter()
        .filter(|module| !ORDER.contains(&module.as_str()) && !COMMON.contains(&module.as_str()))
        .collect();
    assert!(unknown.is_empty(), "give {unknown:?} a place in ORDER and in ARCHITECTURE.md");
}

fn may_import(module: &str, import: &str) -> bool {
    let place = |name: &str| ORDER.iter().position(|ordered| *ordered == name);
    if COMMON.contains(&import) {
        return true;
    }
    match (place(module), place(import)) {
        (Some(module), Some(import)) => import < module,
        (None, Some(_)) => false,
        // an item of the crate's root, such as a re-exported type
        (_, None) => true,
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("core has sources") {
        let path = entry.expect("core has sources").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The module that a file holds, as names from the crate's root: none for `lib.rs`.
fn module_path(source: &Path, file: &Path) -> Vec<String> {
    let relative = file.strip_prefix(source).expect("the file lies below the sources").with_extension("");
    let mut names: Vec<_> = relative.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|name| name == "mod" || name == "lib") {
        names.pop();
    }
    names
}

/// The modules of core that a file names, in `use` and in paths, tests left out.
fn imports_of(file: &Path, module: Vec<String>) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).expect("core's sources can be read");
    let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut imports = Imports { module, found: BTreeSet::new() };
    imports.visit_file(&syntax);
    imports.found
}

struct Imports {
    module: Vec<String>,
    found: BTreeSet<String>,
}

impl Imports {
    /// Notes the top module that a path leads to, if it stays in the crate.
    fn note(&mut self, path: &[String]) {
        let mut base = self.module.clone();
        let mut inside = false;
        for name in path {
            match name.as_str() {
                "crate" => base.clear(),
                "self" => {}
                "super" => _ = base.pop(),
                _ if !inside => return,
                name => {
                    let top = base.first().cloned().unwrap_or_else(|| name.to_owned());
                    self.found.insert(top);
                    return;
                }
            }
            inside = true;
        }
    }

    fn note_tree(&mut self, tree: &UseTree, prefix: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.note_tree(&path.tree, prefix);
                prefix.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.note_tree(item, prefix)),
            UseTree::Name(name) => self.note(&[prefix.as_slice(), &[name.ident.to_string()]].concat()),
            UseTree::Rename(name) => self.note(&[prefix.as_slice(), &[name.ident.to_string()]].concat()),
            UseTree::Glob(_) => self.note(prefix),
        }
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'syntax> Visit<'syntax> for Imports {
    fn visit_item_mod(&mut self, item: &'syntax ItemMod) {
        if is_for_tests(&item.attrs) {
            return;
        }
        self.module.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'syntax ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.note_tree(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'syntax syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&names);
        syn::visit::visit_path(self, path);
    }

    /// Macros are tokens without structure: `crate :: name` is looked for in their text.
    fn visit_macro(&mut self, item: &'syntax Macro) {
        let text = item.tokens.to_string();
        for part in text.split("crate :: ").skip(1) {
            let name: String =
                part.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            self.note(&["crate".to_owned(), name]);
        }
        syn::visit::visit_macro(self, item);
    }
}
