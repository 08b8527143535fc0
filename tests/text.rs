//! What must not stand in the project's own text.

use std::path::{Path, PathBuf};

use crate::fixtures::root;

/// Folders that are built, downloaded or copied from elsewhere.
const FOREIGN: [&str; 8] =
    ["target", ".git", "fixtures", "corpus", "artifacts", "__pycache__", ".venv", "shared"];
const TEXT: [&str; 10] = ["rs", "toml", "md", "py", "txt", "yml", "yaml", "sh", "json", "ini"];

/// The project's own text files with their contents.
fn own_texts() -> Vec<(PathBuf, String)> {
    let mut texts = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the project can be listed") {
            let path = entry.expect("the project can be listed").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !FOREIGN.contains(&name.as_str()) {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| TEXT.iter().any(|text| kind == *text)) {
                let text = std::fs::read_to_string(&path).expect("text is UTF-8");
                texts.push((path, text));
            }
        }
    }
    texts
}

fn offending_lines(is_wrong: impl Fn(&Path, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in own_texts() {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_wrong(&path, line)) {
            found.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
        }
    }
    found
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    // written in two parts, so that this file does not find itself
    let paths = [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];
    let found = offending_lines(|_, line| paths.iter().any(|path| line.contains(path)));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn nothing_is_left_to_do_without_an_issue() {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let found = offending_lines(|_, line| {
        words.iter().any(|word| line.contains(word) && !line.contains(&format!("{word}(#")))
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_package_comes_from_the_public_registry() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("the lock file is there");
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let foreign: Vec<_> = sources
        .filter(|source| *source != "\"registry+https://github.com/rust-lang/crates.io-index\"")
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for (path, text) in
        own_texts().into_iter().filter(|(path, _)| path.extension().is_some_and(|kind| kind == "md"))
    {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:") || file.is_empty();
            if !is_elsewhere && !path.with_file_name("").join(file).exists() {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
