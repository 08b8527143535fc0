//! The one place that reads the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use zkit_core::error::{Error, ErrorKind};

use crate::values::parse_bytes;

/// Prefixes of variables that configure stores. Without this filter bare names such as `TOKEN` would count.
const STORE_PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Variables that name proxies; programs accept them in either case.
const PROXY_NAMES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// What the options of the same names say.
const CHUNK_CACHE: &str = "ZKIT_CHUNK_CACHE";
const CHUNK_CACHE_SIZE: &str = "ZKIT_CHUNK_CACHE_SIZE";

/// Whether a stream leads to a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Someone is looking.
    Terminal,
    /// A file, a pipe, a log.
    Other,
}

impl Stream {
    /// Returns where a stream leads.
    pub fn of(stream: &impl std::io::IsTerminal) -> Self {
        if stream.is_terminal() { Self::Terminal } else { Self::Other }
    }
}

/// The variables of the environment, read once at the start.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Reads the environment of this process; variables that are not Unicode are left out.
    pub fn read() -> Self {
        let unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(unicode).collect())
    }

    /// Returns the variables that configure stores (`AWS_*`, `GOOGLE_*`, `AZURE_*`, proxies), sorted by name.
    pub fn store_variables(&self) -> Vec<(String, String)> {
        let concerns_stores = |name: &str| {
            STORE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                || PROXY_NAMES.iter().any(|proxy| name.eq_ignore_ascii_case(proxy))
        };
        self.0
            .iter()
            .filter(|(name, _)| concerns_stores(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Returns the folder of the chunk cache that is used where the arguments name none.
    pub fn chunk_cache(&self) -> Option<PathBuf> {
        self.get(CHUNK_CACHE).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Returns what a chunk cache may hold where the arguments do not say it.
    ///
    /// Fails with kind `Usage` where it is no size.
    pub fn chunk_cache_bytes(&self) -> Result<Option<u64>, Error> {
        let Some(text) = self.get(CHUNK_CACHE_SIZE).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let failed =
            |why| Error::new(ErrorKind::Usage, format!("could not understand {CHUNK_CACHE_SIZE}: {why}"));
        parse_bytes(text).map(Some).map_err(failed)
    }

    /// Returns whether colours are welcome on a stream where the user did not say: <https://no-color.org>,
    /// <https://bixense.com/clicolors>.
    pub fn welcomes_color(&self, stream: Stream) -> bool {
        if self.is_set("NO_COLOR") {
            return false;
        }
        if self.get("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0") {
            return true;
        }
        let refused = self.get("CLICOLOR") == Some("0") || self.get("TERM") == Some("dumb");
        stream == Stream::Terminal && !refused
    }

    /// Returns whether the locale shows characters outside ASCII.
    pub fn shows_unicode(&self) -> bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(|name| self.is_set(name));
        let locale = locale.and_then(|name| self.get(name)).unwrap_or("").to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_empty())
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<Variables: IntoIterator<Item = (String, String)>>(variables: Variables) -> Self {
        Self(variables.into_iter().collect())
    }
}

/// Names only: values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn stores_see_their_own_variables_and_proxies_only() {
        let environment = environment(&[
            ("AWS_REGION", "eu-west-1"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/key.json"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "a"),
            ("https_proxy", "http://proxy"),
            ("TOKEN", "secret"),
            ("MY_AWS_REGION", "x"),
        ]);
        let names: Vec<_> = environment.store_variables().into_iter().map(|(name, _)| name).collect();
        let expected =
            ["AWS_REGION", "AZURE_STORAGE_ACCOUNT_NAME", "GOOGLE_APPLICATION_CREDENTIALS", "https_proxy"];
        assert_eq!(names, expected);
    }

    #[test]
    fn no_color_wins_over_everything() {
        let terminal = Stream::Terminal;
        assert!(environment(&[]).welcomes_color(terminal));
        assert!(!environment(&[]).welcomes_color(Stream::Other));
        assert!(environment(&[("CLICOLOR_FORCE", "1")]).welcomes_color(Stream::Other));
        assert!(!environment(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]).welcomes_color(terminal));
        assert!(environment(&[("NO_COLOR", "")]).welcomes_color(terminal));
        assert!(!environment(&[("CLICOLOR", "0")]).welcomes_color(terminal));
        assert!(!environment(&[("TERM", "dumb")]).welcomes_color(terminal));
    }

    #[test]
    fn the_first_locale_that_is_set_decides() {
        assert!(environment(&[("LANG", "en_GB.UTF-8")]).shows_unicode());
        assert!(environment(&[("LC_ALL", ""), ("LANG", "C.utf8")]).shows_unicode());
        assert!(!environment(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]).shows_unicode());
        assert!(!environment(&[]).shows_unicode());
    }

    #[test]
    fn a_chunk_cache_has_a_size_in_the_environment_or_a_word_why_not() {
        let of = |size| environment(&[("ZKIT_CHUNK_CACHE", "/ssd/chunks"), ("ZKIT_CHUNK_CACHE_SIZE", size)]);
        assert_eq!(of("20GiB").chunk_cache(), Some("/ssd/chunks".into()));
        assert_eq!(of("20GiB").chunk_cache_bytes().unwrap(), Some(20 << 30));
        assert_eq!(of("").chunk_cache_bytes().unwrap(), None);
        assert!(of("many").chunk_cache_bytes().unwrap_err().to_string().contains("found `many`"));
        assert_eq!(environment(&[("ZKIT_CHUNK_CACHE", "")]).chunk_cache(), None);
    }

    #[test]
    fn debug_output_holds_no_values() {
        assert_eq!(
            format!("{:?}", environment(&[("AWS_SECRET_ACCESS_KEY", "hunter2")])),
            "{\"AWS_SECRET_ACCESS_KEY\"}"
        );
    }
}
