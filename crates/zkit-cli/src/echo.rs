//! What of a command line may be shown again: errors about arguments quote them, and secrets are among them.

use std::ffi::OsString;

use zkit_core::location::redact;

/// Names of values that are secrets.
const SECRET_NAMES: [&str; 11] =
    ["secret", "token", "passw", "pwd", "key", "accountkey", "sas", "signature", "credential", "sig", "auth"];
/// Options whose values are never shown.
const SECRET_OPTIONS: [&str; 1] = ["--storage-option"];
/// What stands for a secret.
const HIDDEN: &str = "***";

/// Returns a text about a command line without the secrets of its arguments.
pub(crate) fn without_secrets(text: &str, arguments: impl Iterator<Item = OsString>) -> String {
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let mut hidden: Vec<(&str, String)> = Vec::new();
    let mut of_secret_option = false;
    for argument in &arguments {
        // both spellings: `--option value` and `--option=value`
        let option = argument.split_once('=').filter(|(name, _)| name.starts_with('-'));
        let value = option.map_or(argument.as_str(), |(_, value)| value);
        let is_secret = of_secret_option || option.is_some_and(|(name, _)| SECRET_OPTIONS.contains(&name));
        of_secret_option = SECRET_OPTIONS.contains(&argument.as_str());
        let shown = if is_secret { hidden_value(value) } else { shown(value) };
        if shown != value {
            hidden.push((value, shown));
        }
    }
    // the longest first: one may be a part of another
    hidden.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    hidden.into_iter().fold(text.to_owned(), |text, (value, shown)| text.replace(value, &shown))
}

/// Returns `KEY=***`, or less where there is no key.
fn hidden_value(value: &str) -> String {
    value.split_once('=').map_or_else(|| HIDDEN.to_owned(), |(key, _)| format!("{key}={HIDDEN}"))
}

/// Returns an argument without user names, passwords and query values, and without values that are named like secrets.
fn shown(argument: &str) -> String {
    if let Some((scheme, rest)) = argument.split_once("://") {
        // a URL that cannot be parsed may hold a password with any character: whatever is before the last `@` is hidden
        return match rest.rsplit_once('@') {
            Some((_, host)) => {
                redact(&format!("{scheme}://{host}")).replacen("://", &format!("://{HIDDEN}@"), 1)
            }
            None => redact(argument),
        };
    }
    let Some(at) = argument.find(['=', ':', ' ']) else { return argument.to_owned() };
    let name = argument[..at].to_ascii_lowercase();
    let is_secret = SECRET_NAMES.iter().any(|secret| {
        name.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| word == *secret || (secret.len() > 4 && word.contains(secret)))
    });
    if is_secret { format!("{}{HIDDEN}", &argument[..=at]) } else { argument.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echoed(arguments: &[&str]) -> String {
        let text = arguments.iter().map(|argument| format!("`{argument}`")).collect::<Vec<_>>().join(" ");
        without_secrets(&text, arguments.iter().map(OsString::from))
    }

    #[test]
    fn passwords_of_urls_are_hidden_however_they_are_written() {
        for url in [
            "http://user:PA/SSw0rd@127.0.0.1:1/x",
            "http://user:PASSw0rd@[::1/x",
            "http://user:PASSw0rd@h:port/x",
            "ftp://user:PASSw0rd@h/x",
            "file://user:PASSw0rd@h/x",
            "s3://key:PASSw0rd@/x",
            "https://h:x/a?sig=PASSw0rd",
            "HTTP://user:P@SSw0rd@h:x/y",
            "://user:SSw0rd@h",
        ] {
            for line in [vec![url], vec!["--to", url], vec![&format!("--allow-prefix={url}")]] {
                let text = echoed(&line);
                assert!(!text.contains("SSw0rd") && !text.contains("user"), "{text}");
            }
        }
        assert_eq!(echoed(&["ftp://user:PASSw0rd@h/x"]), "`ftp://***@h/x`");
    }

    #[test]
    fn values_of_storage_options_are_hidden() {
        assert_eq!(echoed(&["--storage-option", "secret_access_key s3cr3t"]), "`--storage-option` `***`");
        assert_eq!(echoed(&["--storage-option", "=s3cr3t"]), "`--storage-option` `=***`");
        assert_eq!(echoed(&["--storage-option=s3cr3t"]), "`--storage-option=***`");
        assert_eq!(echoed(&["aws_secret_access_key=s3cr3t"]), "`aws_secret_access_key=***`");
        assert_eq!(echoed(&["--secret-key=token:s3cr3t"]), "`--secret-key=token:***`");
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        for text in [
            "time=-1,latitude=32",
            "s3://bucket/a.zarr",
            "a b.zarr",
            "--sel",
            "keys.zarr",
            "zstd:x",
            "--chunks=time=x",
        ] {
            assert_eq!(echoed(&[text]), format!("`{text}`"));
        }
    }
}
