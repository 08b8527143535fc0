//! Findings that are known and hidden.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use zkit_core::error::{Error, ErrorKind};
use zkit_report::{Finding, fingerprints, numbered};

use crate::places::Places;

/// Larger files are no baselines.
const MOST_BYTES: u64 = 256 << 20;

/// The version that is written. Version 1 named stores as the command line did, in their fingerprints.
const SCHEMA_VERSION: u32 = 2;

/// What `--write-baseline` writes.
#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    schema_version: u32,
    findings: Vec<Known>,
}

/// One finding that is known: the fingerprint counts, and from version 2 on the name of the store ([`Places`]); the rest is for
/// people.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    fingerprint: String,
    #[serde(default)]
    rule: String,
    #[serde(default)]
    store: String,
    #[serde(default)]
    array: Option<String>,
}

/// The findings that are hidden.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    /// Fingerprints of version 1.
    old: BTreeSet<String>,
    /// Fingerprints by the name of their store.
    of_stores: BTreeMap<String, BTreeSet<String>>,
}

impl Baseline {
    /// Reads a baseline; `None` hides nothing.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::default()) };
        let failed = |kind| Error::new(kind, format!("could not read the baseline {}", path.display()));
        let read = std::fs::metadata(path).and_then(|metadata| match metadata.len() {
            ..=MOST_BYTES => std::fs::read(path),
            _ => Err(std::io::Error::other("it is larger than 256 MiB")),
        });
        let text = read.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                failed(ErrorKind::Absent).with_source(error).with_hint("write it with --write-baseline first")
            }
            _ => failed(ErrorKind::Unreadable).with_source(error),
        })?;
        let file: File =
            serde_json::from_slice(&text).map_err(|error| failed(ErrorKind::Usage).with_source(error))?;
        let mut baseline = Self::default();
        match file.schema_version {
            0 | 1 => baseline.old = file.findings.into_iter().map(|known| known.fingerprint).collect(),
            SCHEMA_VERSION => {
                for known in file.findings {
                    baseline.of_stores.entry(known.store).or_default().insert(known.fingerprint);
                }
            }
            version => {
                let message = format!("it has version {version}, this zkit reads up to {SCHEMA_VERSION}");
                return Err(failed(ErrorKind::Usage)
                    .with_source(std::io::Error::other(message))
                    .with_hint("write it again with --write-baseline"));
            }
        }
        Ok(baseline)
    }

    /// Returns whether it was written by a zkit whose baselines hold only for paths that are written alike.
    pub(crate) fn is_old(&self) -> bool {
        !self.old.is_empty()
    }

    /// Takes out what is known, and returns it.
    pub(crate) fn hide(&self, findings: &mut Vec<Finding>, places: &Places) -> Vec<Finding> {
        if self.old.is_empty() && self.of_stores.is_empty() {
            return Vec::new();
        }
        let known: BTreeMap<String, Option<&str>> = findings
            .iter()
            .map(|finding| places.name(&finding.store))
            .map(|name| {
                let known = places.known_as(&name, self.of_stores.keys().map(String::as_str));
                (name, known)
            })
            .collect();
        let known_as = |finding: &Finding| known.get(&places.name(&finding.store)).copied().flatten();
        let at = |finding: &Finding| finding.fingerprint_at(known_as(finding).unwrap_or_default());
        let (new, old) = (numbered(findings.iter().map(at)), fingerprints(findings.iter()));
        let mut hidden = Vec::new();
        let all = std::mem::take(findings);
        for ((finding, new), old) in all.into_iter().zip(new).zip(old) {
            let of_store = known_as(&finding).and_then(|store| self.of_stores.get(store));
            let is_known = self.old.contains(&old) || of_store.is_some_and(|known| known.contains(&new));
            if is_known { hidden.push(finding) } else { findings.push(finding) }
        }
        hidden
    }
}

/// Writes the findings as a baseline; the file appears once it is complete, with the permissions that new files get.
pub(crate) fn write<'a>(
    path: &Path,
    findings: impl Iterator<Item = &'a Finding> + Clone,
    places: &Places,
) -> Result<(), Error> {
    let at = |finding: &Finding| finding.fingerprint_at(&places.name(&finding.store));
    let known = findings.clone().zip(numbered(findings.map(at))).map(|(finding, fingerprint)| Known {
        fingerprint,
        rule: finding.rule.to_owned(),
        store: places.name(&finding.store),
        array: finding.array.clone(),
    });
    let file = File { schema_version: SCHEMA_VERSION, findings: known.collect() };
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Unwritable, format!("could not write the baseline {}", path.display()))
            .with_source(error)
    };
    let mut text = serde_json::to_vec_pretty(&file).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // what the umask leaves of it
    let ordinary = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut sibling = tempfile::Builder::new().permissions(ordinary).tempfile_in(folder).map_err(failed)?;
    std::io::Write::write_all(&mut sibling, &text).map_err(failed)?;
    sibling.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use zkit_report::{ChunkGrid, Confidence, Severity};

    use super::*;

    fn finding(array: &str, message: &str) -> Finding {
        Finding {
            rule: "missing-slab",
            severity: Severity::Error,
            confidence: Confidence::High,
            store: "/data/a.zarr".into(),
            array: Some(array.into()),
            chunks: None,
            grid: ChunkGrid::Stored,
            message: message.into(),
            evidence: Map::new(),
            remedy: None,
        }
    }

    /// The places of a run over two stores of a folder.
    fn places(folder: &str) -> Places {
        Places::of(&[format!("{folder}/a.zarr"), format!("{folder}/b.zarr")])
    }

    #[test]
    fn a_baseline_holds_on_another_machine_and_for_no_other_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baseline.json");
        let known = [finding("/a", "3 chunks")];
        write(&path, known.iter(), &places("/data")).unwrap();
        let baseline = Baseline::load(Some(&path)).unwrap();
        let at = |store: &str| [Finding { store: store.into(), ..finding("/a", "3 chunks") }].to_vec();
        for store in ["/builds/x/a.zarr", "/builds/x/y/../a.zarr/", "file:///builds/x/a.zarr"] {
            assert_eq!(baseline.hide(&mut at(store), &places("/builds/x")).len(), 1, "{store}");
        }
        assert_eq!(baseline.hide(&mut at("/builds/x/b.zarr"), &places("/builds/x")).len(), 0);
        let deeper = Places::of(&["/d/x/a.zarr".to_owned(), "/d/y/b.zarr".to_owned()]);
        assert_eq!(baseline.hide(&mut at("/d/x/a.zarr"), &deeper).len(), 1);
        let doubtful = Places::of(&["/d/x/a.zarr".to_owned(), "/d/y/a.zarr".to_owned()]);
        assert_eq!(baseline.hide(&mut at("/d/x/a.zarr"), &doubtful).len(), 0, "either may be meant");
    }

    #[test]
    fn files_of_version_1_are_read_and_later_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baseline.json");
        let fingerprint = finding("/a", "3 chunks").fingerprint();
        let file = |version: u32| {
            let text =
                format!(r#"{{"schema_version":{version},"findings":[{{"fingerprint":"{fingerprint}"}}]}}"#);
            std::fs::write(&path, text).unwrap();
            Baseline::load(Some(&path))
        };
        let old = file(1).unwrap();
        assert!(old.is_old());
        assert_eq!(old.hide(&mut vec![finding("/a", "3 chunks")], &places("/data")).len(), 1);
        assert_eq!(file(3).unwrap_err().kind(), ErrorKind::Usage);
    }

    #[test]
    fn what_was_written_is_hidden_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baseline.json");
        let known = [finding("/a", "3 chunks")];
        write(&path, known.iter(), &places("/data")).unwrap();
        let baseline = Baseline::load(Some(&path)).unwrap();
        let mut findings = vec![finding("/a", "4 chunks"), finding("/b", "3 chunks")];
        let hidden = baseline.hide(&mut findings, &places("/data"));
        assert_eq!(hidden.len(), 1);
        assert_eq!(hidden[0].message, "4 chunks", "what is known and still there can be written again");
        assert_eq!(findings[0].array.as_deref(), Some("/b"));
        let mut twice = vec![finding("/a", "3 chunks"), finding("/a", "another thing")];
        assert_eq!(
            baseline.hide(&mut twice, &places("/data")).len(),
            1,
            "a second finding of that place is new"
        );
        assert!(Baseline::load(None).unwrap().hide(&mut findings, &places("/data")).is_empty());
        assert_eq!(Baseline::load(Some(&folder.path().join("x"))).unwrap_err().kind(), ErrorKind::Absent);
    }

    #[test]
    fn a_baseline_has_the_permissions_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        std::fs::write(folder.path().join("other"), b"").unwrap();
        write(&folder.path().join("baseline.json"), [].iter(), &Places::default()).unwrap();
        assert_eq!(mode("baseline.json"), mode("other"));
    }
}
