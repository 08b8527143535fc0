//! The fixtures, what their manifest says of them, and the binary that reads them.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::{Map, Value};

/// The store of the README's tour.
pub(crate) const TOUR: &str = "ostia_sst.zarr";

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    root().join("fixtures").join(name)
}

/// What `fixtures/manifest.json` says of each fixture, by name.
pub(crate) fn manifest() -> Map<String, Value> {
    let text = std::fs::read_to_string(fixture("manifest.json")).expect("the manifest is there");
    let mut manifest: Value = serde_json::from_str(&text).expect("the manifest is JSON");
    match manifest["fixtures"].take() {
        Value::Object(fixtures) => fixtures,
        other => panic!("`fixtures` of the manifest is {other}"),
    }
}

/// The fixtures that zkit reads (folders of Zarr), sound ones or faulty ones.
pub(crate) fn readable(valid: bool) -> Vec<(String, Value)> {
    let is_wanted = |facts: &Value| facts["readable"] == true && facts["valid"] == valid;
    manifest().into_iter().filter(|(_, facts)| is_wanted(facts)).collect()
}

/// A zkit without credentials and colour, which therefore answers the same everywhere.
pub(crate) fn zkit() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zkit"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["AWS_", "GOOGLE_", "AZURE_", "ZKIT_", "CLICOLOR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    command.env("NO_COLOR", "1").timeout(std::time::Duration::from_secs(60));
    command
}

/// How a run ended.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?}; {}", self.stdout, self.stderr))
    }
}

/// Runs zkit to its end; a panic or a signal fails the test.
pub(crate) fn run(command: &mut Command) -> Answer {
    let output = command.output().expect("zkit starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(!stderr.contains("panicked"), "{stderr}");
    Answer { code: output.status.code().expect("zkit was not killed"), stdout, stderr }
}

/// The JSON document of a run that must succeed.
pub(crate) fn json(arguments: &[&str], store: &Path) -> Value {
    let answer = run(zkit().args(arguments).arg(store).args(["--format", "json"]));
    assert_eq!(answer.code, 0, "{}: {}", store.display(), answer.stderr);
    answer.json()
}

/// The arrays of a document, by path.
pub(crate) fn arrays(document: &Value) -> Map<String, Value> {
    let arrays = document["arrays"].as_array().expect("`arrays` is a list");
    let path = |array: &Value| array["path"].as_str().expect("a path is text").to_owned();
    arrays.iter().map(|array| (path(array), array.clone())).collect()
}

/// Copies a fixture to where a test may change it.
pub(crate) fn copy_to(name: &str, folder: &Path) -> PathBuf {
    let destination = folder.join(name);
    copy_folder(&fixture(name), &destination);
    destination
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the temporary folder can be written");
    for entry in std::fs::read_dir(from).expect("the fixture can be listed") {
        let path = entry.expect("the fixture can be listed").path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("the fixture can be copied");
        }
    }
}
