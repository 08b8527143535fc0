//! Where a store is: parsing of paths and URLs, and nothing else.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use url::Url;

use crate::error::{Error, ErrorKind, Result};

/// The protocols that zkit speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Amazon S3 and what speaks its protocol: `s3://bucket/prefix`.
    S3,
    /// Google Cloud Storage: `gs://bucket/prefix`.
    Gcs,
    /// Azure Blob Storage: `az://container/prefix`, `abfs://`.
    Azure,
    /// A web server: `http://` or `https://`; read-only, without listing.
    Http,
}

/// The place of a store: a local path or a URL.
///
/// `Display` never shows user names, passwords, tokens or query values.
///
/// ```
/// use zkit_core::location::StoreUrl;
///
/// let url: StoreUrl = "s3://bucket/era5.zarr".parse()?;
/// assert_eq!(url.to_string(), "s3://bucket/era5.zarr");
/// let secret: StoreUrl = "https://me:pass@host/a.zarr?sig=secret".parse()?;
/// assert_eq!(secret.to_string(), "https://host/a.zarr?sig=***");
/// # Ok::<(), zkit_core::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A directory or file of this machine.
    Local(PathBuf),
    /// Something behind a protocol.
    Remote {
        /// The protocol.
        scheme: Scheme,
        /// The whole URL, secrets included.
        url: Url,
    },
}

impl StoreUrl {
    /// Parses a path in any encoding, or a URL as [`str::parse`] does.
    pub fn from_os(text: &OsStr) -> Result<Self> {
        match text.to_str() {
            Some(text) => text.parse(),
            None if text.as_encoded_bytes().windows(3).any(|part| part == b"://") => {
                let shown = redact(&text.to_string_lossy());
                Err(Error::new(ErrorKind::Usage, format!("the URL `{shown}` is not UTF-8"))
                    .with_hint("write other bytes as %XX"))
            }
            None => Ok(Self::Local(PathBuf::from(text))),
        }
    }

    /// Returns the local path, if this is one.
    pub fn local_path(&self) -> Option<&Path> {
        match self {
            Self::Local(path) => Some(path),
            Self::Remote { .. } => None,
        }
    }

    /// Returns the last part of the path: the store's own name, without escapes. `None` for a root, and for `.` and `..`.
    pub fn name(&self) -> Option<String> {
        match self {
            Self::Local(path) => Some(path.file_name()?.to_str()?.to_owned()),
            Self::Remote { .. } => self.key_parts().pop(),
        }
    }

    /// Returns the parts of a remote store's path, without escapes and empty ones; none of a local one.
    pub fn key_parts(&self) -> Vec<String> {
        let Self::Remote { url, .. } = self else { return Vec::new() };
        url.path().split('/').filter(|part| !part.is_empty()).map(percent_decode).collect()
    }

    /// Returns the folder that this lies in; a bucket's root is its own.
    #[must_use]
    pub fn parent(&self) -> Self {
        match self {
            Self::Local(path) => {
                let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                Self::Local(absolute.parent().unwrap_or(&absolute).to_owned())
            }
            Self::Remote { scheme, url } => {
                let mut url = url.clone();
                let path = url.path().trim_end_matches('/');
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
                url.set_path(&parent);
                Self::Remote { scheme: *scheme, url }
            }
        }
    }

    /// Returns the place of `name` below this one.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.join(name)),
            Self::Remote { scheme, url } => {
                let mut url = url.clone();
                let name = name.replace('%', "%25");
                let path = format!("{}/{name}", url.path().trim_end_matches('/'));
                url.set_path(&path);
                Self::Remote { scheme: *scheme, url }
            }
        }
    }
}

impl std::str::FromStr for StoreUrl {
    type Err = Error;

    /// Parses a path, or a `file://`, `s3://`, `gs://`, `az://`, `http://` or `https://` URL.
    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "the path of a store is empty"));
        }
        if text == "~" || text.starts_with("~/") {
            let message =
                format!("could not use `{text}`: `~` is expanded by the shell alone, where it is not quoted");
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint(format!("write $HOME{}, or ./{text} for a folder of that name", &text[1..])));
        }
        let Some((scheme, _)) = text.split_once("://") else {
            return Ok(Self::Local(PathBuf::from(text)));
        };
        let scheme = scheme.to_ascii_lowercase();
        // names of files and keys hold `#` and `?`: cut off there, another store would be opened
        let escaped = match scheme.as_str() {
            "file" => text.replace('#', "%23").replace('?', "%3F"),
            "http" | "https" => text.to_owned(),
            _ => text.replace('#', "%23").replace('?', "%3F"),
        };
        let url = Url::parse(&escaped).map_err(|error| {
            Error::new(ErrorKind::Usage, format!("could not parse the URL `{}`", redact(text)))
                .with_source(error)
        })?;
        let scheme = match scheme.as_str() {
            "file" => {
                let path = url.to_file_path().map_err(|()| {
                    Error::new(ErrorKind::Usage, format!("`{}` does not name a local file", redact(text)))
                })?;
                return Ok(Self::Local(path));
            }
            "s3" | "s3a" => Scheme::S3,
            "gs" | "gcs" => Scheme::Gcs,
            "az" | "abfs" | "abfss" | "azure" | "adl" => Scheme::Azure,
            "http" | "https" => Scheme::Http,
            other => {
                return Err(Error::new(ErrorKind::Usage, format!("unknown protocol `{other}://`"))
                    .with_hint("use a path, file://, s3://, gs://, az://, http:// or https://"));
            }
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err(Error::new(ErrorKind::Usage, format!("`{}` names no bucket or host", redact(text))));
        }
        Ok(Self::Remote { scheme, url })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Remote { url, .. } => f.write_str(&redact(url.as_str())),
        }
    }
}

/// Returns a part of a URL without its escapes: `%20` is a space.
pub fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = (byte == b'%').then(|| tail.get(..2)).flatten();
        let value = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(value.unwrap_or(byte));
        rest = if value.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns `text` without what may be secret in the URLs in it: user information and query values.
pub fn redact(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("://") {
        let (head, tail) = rest.split_at(start + 3);
        clean.push_str(head);
        let end = tail.find(|c: char| c.is_whitespace() || "\"'`<>)".contains(c)).unwrap_or(tail.len());
        redact_one(&tail[..end], &mut clean);
        rest = &tail[end..];
    }
    clean.push_str(rest);
    clean
}

/// Appends one URL, given without its `scheme://`.
fn redact_one(url: &str, clean: &mut String) {
    let authority_end = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, rest) = url.split_at(authority_end);
    // a password with a slash in it, of a URL that nobody can parse: what is behind the colon is no port
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit() || byte == b']');
    if !authority.contains('@')
        && authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port))
        && let Some((_, after)) = rest.rsplit_once('@')
    {
        return redact_one(after, clean);
    }
    clean.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    clean.push_str(path);
    for (position, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        clean.push(if position == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((key, _)) => {
                clean.push_str(key);
                clean.push_str("=***");
            }
            None => clean.push_str("***"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_folder_that_no_shell_expanded_is_no_folder_of_that_name() {
        for text in ["~", "~/a.zarr"] {
            let error = text.parse::<StoreUrl>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.hint().unwrap().contains(&format!("./{text}")), "{text}");
        }
        assert!("./~/a.zarr".parse::<StoreUrl>().is_ok() && "~a.zarr".parse::<StoreUrl>().is_ok());
    }

    #[test]
    fn paths_and_file_urls_are_local() {
        assert_eq!("a/b.zarr".parse::<StoreUrl>().unwrap(), StoreUrl::Local("a/b.zarr".into()));
        assert_eq!(
            "file:///a/b%20c.zarr".parse::<StoreUrl>().unwrap(),
            StoreUrl::Local("/a/b c.zarr".into())
        );
        assert_eq!(
            "file:///a/b#c?.zarr".parse::<StoreUrl>().unwrap(),
            StoreUrl::Local("/a/b#c?.zarr".into())
        );
    }

    #[test]
    fn keys_hold_number_signs() {
        let StoreUrl::Remote { url, .. } = "s3://bucket/run#7/a.zarr".parse().unwrap() else { panic!() };
        assert_eq!((url.path(), url.fragment()), ("/run%237/a.zarr", None));
        let odd: StoreUrl = "s3://bucket/a?b/50%25 #1.zarr".parse().unwrap();
        assert_eq!(odd.key_parts(), ["a?b", "50% #1.zarr"]);
        let joined: StoreUrl = "s3://bucket".parse::<StoreUrl>().unwrap().join(&odd.name().unwrap());
        assert_eq!(joined.key_parts(), ["50% #1.zarr"]);
    }

    #[test]
    fn names_and_joins_keep_to_the_place() {
        let remote: StoreUrl = "s3://bucket/a/era5.zarr/".parse().unwrap();
        assert_eq!(
            (remote.name(), remote.join("x").to_string()),
            (Some("era5.zarr".into()), "s3://bucket/a/era5.zarr/x".into())
        );
        let root: StoreUrl = "s3://bucket".parse().unwrap();
        assert_eq!((root.name(), root.join("x.zarr").to_string()), (None, "s3://bucket/x.zarr".into()));
        let local: StoreUrl = "/data/era5.zarr/".parse().unwrap();
        assert_eq!(
            (local.name(), local.join("x").to_string()),
            (Some("era5.zarr".into()), "/data/era5.zarr/x".into())
        );
        assert_eq!(
            ("/data/..".parse::<StoreUrl>().unwrap().name(), "/".parse::<StoreUrl>().unwrap().name()),
            (None, None)
        );
    }

    #[test]
    fn refuses_unknown_protocols_and_empty_buckets() {
        for text in ["ftp://host/a", "s3:///a", ""] {
            assert_eq!(text.parse::<StoreUrl>().unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_may_have_any_encoding_and_urls_may_not() {
        use std::os::unix::ffi::OsStrExt as _;
        let path = OsStr::from_bytes(b"a\xff.zarr");
        assert_eq!(StoreUrl::from_os(path).unwrap(), StoreUrl::Local(path.into()));
        let error = StoreUrl::from_os(OsStr::from_bytes(b"http://u:p\xff@h/x")).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Usage, "the URL `http://h/x` is not UTF-8".into())
        );
    }

    #[test]
    fn redacts_passwords_that_make_a_url_unreadable() {
        assert_eq!(redact("http://user:PA/SSw0rd@127.0.0.1:1/x?a=b"), "http://127.0.0.1:1/x?a=***");
        assert_eq!(redact("http://user:P?A@h/x"), "http://h/x");
        assert_eq!(
            redact("http://h:80/a@b http://[::1]:80/a@b s3://b/a@c"),
            "http://h:80/a@b http://[::1]:80/a@b s3://b/a@c"
        );
    }

    #[test]
    fn redacts_every_url_in_a_text() {
        let text = "GET https://u:p@h/x?X-Amz-Signature=abc&part: s3://k:s@b/c failed";
        assert_eq!(redact(text), "GET https://h/x?X-Amz-Signature=***&*** s3://b/c failed");
    }
}
