//! `zkit.toml`: the section `[audit]`, and what the command line says over it.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use zkit_core::error::{Error, ErrorKind};
use zkit_rules::policy::{FailOn, Policy};
use zkit_rules::rule_named;

use crate::args::AuditArgs;
use crate::explain;

/// The file that is read where none is named.
const DEFAULT_FILE: &str = "zkit.toml";
/// Larger files are none of settings.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    audit: Policy,
    /// Belongs to `zkit recompress`.
    #[serde(rename = "recompress")]
    _recompress: Option<IgnoredAny>,
}

/// Returns the policy of the run: the file's, with what the command line says over it.
///
/// Fails with kind `Absent` or `Unreadable`, or `Usage` where the file says what zkit does not know: line, expected and
/// found are named.
pub(crate) fn policy(args: &AuditArgs) -> Result<Policy, Error> {
    let mut policy = match &args.config {
        Some(path) => load(path)?,
        None => match load(Path::new(DEFAULT_FILE)) {
            Err(error) if error.kind() == ErrorKind::Absent => Policy::default(),
            other => other?,
        },
    };
    if let Some(fail_on) = args.fail_on {
        policy.fail_on = Some(FailOn::from(fail_on));
    }
    policy.depth = args.depth.or(policy.depth);
    policy.ignore.extend(args.ignore.iter().cloned());
    for name in policy.ignore.iter().chain(&args.select) {
        if rule_named(name).is_none() {
            return Err(explain::unknown_rule(name));
        }
    }
    Ok(policy)
}

fn load(path: &Path) -> Result<Policy, Error> {
    let failed = |kind, error| {
        Error::new(kind, format!("could not read the policy from {}", path.display())).with_source(error)
    };
    let read = std::fs::metadata(path).and_then(|metadata| match metadata.len() {
        ..=MOST_BYTES => std::fs::read_to_string(path),
        _ => Err(std::io::Error::other("it is larger than 1 MiB")),
    });
    let text = read.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => failed(ErrorKind::Absent, error),
        _ => failed(ErrorKind::Unreadable, error),
    })?;
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> Result<Policy, Error> {
    let file: File = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let message =
            format!("could not understand line {line} of {}: {}", path.display(), error.message().trim_end());
        Error::new(ErrorKind::Usage, message)
    })?;
    Ok(file.audit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_of_another_command_is_left_alone() {
        let text = "[recompress]\nchunks = \"auto\"\n[audit]\nids = [\"file_id\"]\n[[audit.variable]]\nmatch = \"snow\"\nsparse = true\n";
        let policy = parse(text, Path::new("zkit.toml")).unwrap();
        assert_eq!(policy.ids, ["file_id"]);
        assert!(policy.variable("/snow").sparse);
    }

    #[test]
    fn a_slip_is_told_with_its_line() {
        let error = parse("[audit]\nid = [\"file_id\"]\n", Path::new("zkit.toml")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("line 2 of zkit.toml"), "{error}");
    }
}
