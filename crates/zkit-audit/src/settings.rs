//! `zkit.toml`: the section `[audit]`, and what the command line says over it.

use serde::Deserialize;
use serde::de::IgnoredAny;
use zkit_cli::{Shell, settings};
use zkit_core::error::Error;
use zkit_rules::policy::{FailOn, Policy};
use zkit_rules::rule_named;

use crate::args::AuditArgs;
use crate::explain;

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
pub(crate) fn policy(args: &AuditArgs, shell: &Shell) -> Result<Policy, Error> {
    let file: File = settings::find(args.config.as_deref(), shell)?;
    let mut policy = file.audit;
    if let Some(fail_on) = args.fail_on {
        policy.fail_on = Some(FailOn::from(fail_on));
    }
    if policy.fail_on == Some(FailOn::Never) && args.fail_on.is_none() {
        shell.note("fail-on = \"never\" in the settings: findings do not change the exit code");
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use zkit_core::error::ErrorKind;

    use super::*;

    fn parse(text: &str, path: &Path) -> Result<Policy, Error> {
        settings::parse::<File>(text, path).map(|file| file.audit)
    }

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
