//! Names that resemble one that does not exist.

use zkit_core::error::{Error, ErrorKind};
use zkit_report::edits;

/// Names that an error suggests, at most.
const SUGGESTIONS_MOST: usize = 3;

/// Returns the error with a hint that names the arrays closest to what was asked for, where some are close.
pub(crate) fn with_hint(error: Error, asked: &[String], paths: &[&str]) -> Error {
    let missing = asked.iter().map(|name| format!("/{}", name.trim_matches('/'))).find(|name| {
        let below = format!("{}/", name.trim_end_matches('/'));
        !paths.iter().any(|path| path == name || path.starts_with(&below))
    });
    let near = missing.map(|name| near(&name, paths)).unwrap_or_default();
    if near.is_empty() {
        return error;
    }
    let names: Vec<String> = near.iter().map(|path| format!("`{path}`")).collect();
    Error::new(ErrorKind::Usage, error.to_string()).with_hint(format!("similar names: {}", names.join(", ")))
}

/// Returns the paths most like `name`, best first: few edits away, of the same last part, or with it inside.
fn near<'a>(name: &str, paths: &[&'a str]) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let mut scored: Vec<(usize, &str)> = paths
        .iter()
        .filter_map(|&path| {
            let lower = path.to_lowercase();
            let edits = edits(&last(&name), &last(&lower));
            let close = edits <= last(&name).chars().count() / 3
                || (last(&name).len() >= 3 && lower.contains(&last(&name)));
            close.then_some((edits, path))
        })
        .collect();
    scored.sort_unstable();
    scored.into_iter().take(SUGGESTIONS_MOST).map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found_whatever_their_group_and_case() {
        let paths = ["/surface/temperature", "/surface/Temperature_2m", "/time", "/wind"];
        assert_eq!(near("/temprature", &paths), ["/surface/temperature"]);
        assert_eq!(near("/temperature", &paths), ["/surface/temperature", "/surface/Temperature_2m"]);
        assert!(near("/zzzzzz", &paths).is_empty());
    }

    #[test]
    fn the_hint_names_them() {
        let error = Error::new(ErrorKind::Usage, "a.zarr has no array `/tme`");
        let error = with_hint(error, &["time".into(), "tme".into()], &["/time"]);
        assert_eq!(error.hint(), Some("similar names: `/time`"));
    }
}
