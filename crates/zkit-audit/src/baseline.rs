//! Findings that are known and hidden.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zkit_core::error::{Error, ErrorKind};
use zkit_report::{Finding, fingerprints};

/// Larger files are no baselines.
const MOST_BYTES: u64 = 256 << 20;

/// What `--write-baseline` writes.
#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    schema_version: u32,
    findings: Vec<Known>,
}

/// One finding that is known; only the fingerprint counts, the rest is for people.
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

/// The fingerprints of findings that are hidden.
#[derive(Debug, Default)]
pub(crate) struct Baseline(BTreeSet<String>);

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
        Ok(Self(file.findings.into_iter().map(|known| known.fingerprint).collect()))
    }

    /// Takes out what is known, and returns it.
    pub(crate) fn hide(&self, findings: &mut Vec<Finding>) -> Vec<Finding> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let of_each = fingerprints(findings.iter());
        let all = std::mem::take(findings).into_iter().zip(of_each);
        let (known, new): (Vec<_>, Vec<_>) = all.partition(|(_, fingerprint)| self.0.contains(fingerprint));
        *findings = new.into_iter().map(|(finding, _)| finding).collect();
        known.into_iter().map(|(finding, _)| finding).collect()
    }
}

/// Writes the findings as a baseline; the file appears once it is complete, with the permissions that new files get.
pub(crate) fn write<'a>(
    path: &Path,
    findings: impl Iterator<Item = &'a Finding> + Clone,
) -> Result<(), Error> {
    let known = findings.clone().zip(fingerprints(findings)).map(|(finding, fingerprint)| Known {
        fingerprint,
        rule: finding.rule.to_owned(),
        store: finding.store.clone(),
        array: finding.array.clone(),
    });
    let file = File { schema_version: 1, findings: known.collect() };
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

    #[test]
    fn what_was_written_is_hidden_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baseline.json");
        let known = [finding("/a", "3 chunks")];
        write(&path, known.iter()).unwrap();
        let baseline = Baseline::load(Some(&path)).unwrap();
        let mut findings = vec![finding("/a", "4 chunks"), finding("/b", "3 chunks")];
        let hidden = baseline.hide(&mut findings);
        assert_eq!(hidden.len(), 1);
        assert_eq!(hidden[0].message, "4 chunks", "what is known and still there can be written again");
        assert_eq!(findings[0].array.as_deref(), Some("/b"));
        let mut twice = vec![finding("/a", "3 chunks"), finding("/a", "another thing")];
        assert_eq!(baseline.hide(&mut twice).len(), 1, "a second finding of that place is new");
        assert!(Baseline::load(None).unwrap().hide(&mut findings).is_empty());
        assert_eq!(Baseline::load(Some(&folder.path().join("x"))).unwrap_err().kind(), ErrorKind::Absent);
    }

    #[test]
    fn a_baseline_has_the_permissions_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        std::fs::write(folder.path().join("other"), b"").unwrap();
        write(&folder.path().join("baseline.json"), [].iter()).unwrap();
        assert_eq!(mode("baseline.json"), mode("other"));
    }
}
