//! With which hosts a client may speak.
//!
//! References name hosts that nobody has looked at. What is asked of those is checked where the connection is made, for each
//! address and each redirect: a name says nothing of where it leads.

use std::net::IpAddr;
use std::sync::Arc;

use url::{Host, Url};

use super::addresses::{is_link_local, special};
use crate::location::{Scheme, StoreUrl};

/// Redirects that are followed one behind the other, at most.
const REDIRECTS_MOST: usize = 10;

/// The web servers that a store may be read from; those of clouds follow from the settings of the user.
#[derive(Debug, Clone, Default)]
pub enum Hosts {
    /// The one that the user named, and those that it redirects to.
    #[default]
    Named,
    /// Those below prefixes that the user named: redirects stay below them, link-local addresses are never asked.
    Allowed(Arc<[RemotePlace]>),
    /// Public ones: no neighbours, and not this machine.
    Public,
}

/// A place behind a protocol, in parts that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePlace {
    /// Scheme, host and port.
    origin: (String, String, Option<u16>),
    /// The path without escapes.
    parts: Vec<String>,
}

/// Why a host is not asked.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Refused {
    #[error("references do not lead to `{host}`: {address} is {what}")]
    Address { host: String, address: IpAddr, what: &'static str },
    #[error("`{from}` redirects to `{to}`, and no --allow-prefix covers that")]
    Redirect {
        from: String,
        to: String,
        /// What would allow it.
        prefix: String,
    },
    #[error("`{0}` redirects more than {REDIRECTS_MOST} times")]
    TooManyRedirects(String),
}

impl Refused {
    /// Returns what would allow it, where something does.
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Redirect { prefix, .. } => Some(format!("pass --allow-prefix {prefix} if you trust it")),
            Self::Address { .. } | Self::TooManyRedirects(_) => None,
        }
    }
}

impl Hosts {
    /// Returns which hosts may be asked for a target of references: those of prefixes that cover it, else public ones.
    pub fn of_target(target: &StoreUrl, allow_prefixes: &[StoreUrl]) -> Self {
        let allowed: Arc<[RemotePlace]> = allow_prefixes.iter().filter_map(RemotePlace::of).collect();
        let target = RemotePlace::of(target);
        match target.is_some_and(|target| allowed.iter().any(|prefix| prefix.covers(&target))) {
            true => Self::Allowed(allowed),
            false => Self::Public,
        }
    }

    /// Checks the address of a URL that holds one; names are checked when they are resolved.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), Refused> {
        match url.host() {
            Some(Host::Ipv4(v4)) => self.check_address(&v4.to_string(), v4.into()),
            Some(Host::Ipv6(v6)) => self.check_address(&format!("[{v6}]"), v6.into()),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }

    /// Checks an address that is about to be connected to.
    pub(super) fn check_address(&self, host: &str, address: IpAddr) -> Result<(), Refused> {
        let what = match self {
            Self::Named => None,
            Self::Allowed(_) => is_link_local(address).then_some("a link-local address"),
            Self::Public => special(address),
        };
        match what {
            Some(what) => Err(Refused::Address { host: host.to_owned(), address, what }),
            None => Ok(()),
        }
    }

    /// Checks where an answer leads to; `before` are the URLs that led to it.
    pub(super) fn check_redirect(&self, before: &[Url], to: &Url) -> Result<(), Refused> {
        let from = before.last().map_or_else(String::new, host_of);
        if before.len() > REDIRECTS_MOST {
            return Err(Refused::TooManyRedirects(from));
        }
        self.check_url(to)?;
        let Self::Allowed(prefixes) = self else { return Ok(()) };
        let place = RemotePlace::of(&StoreUrl::Remote { scheme: Scheme::Http, url: to.clone() });
        let is_covered =
            |place: RemotePlace| !place.climbs() && prefixes.iter().any(|prefix| prefix.covers(&place));
        if place.is_some_and(is_covered) {
            return Ok(());
        }
        let prefix = to[..url::Position::BeforePath].to_owned();
        let prefix = crate::location::redact(&prefix);
        Err(Refused::Redirect { from, to: host_of(to), prefix })
    }
}

/// Returns the host of a URL with its port, where that is not the usual one.
fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

impl RemotePlace {
    /// Returns the place of a URL; `None` if it names no host, or is local.
    pub fn of(url: &StoreUrl) -> Option<Self> {
        let StoreUrl::Remote { scheme, url: whole } = url else { return None };
        let protocol = match scheme {
            Scheme::Http => whole.scheme().to_owned(),
            Scheme::S3 | Scheme::Gcs | Scheme::Azure => format!("{scheme:?}"),
        };
        // `abfs://container@account` has the container in front of the host
        let container = if *scheme == Scheme::Azure { whole.username() } else { "" };
        let host = format!("{container}@{}", whole.host_str()?);
        let host = host.trim_start_matches('@').to_owned();
        let parts = url.key_parts();
        Some(Self { origin: (protocol, host, whole.port_or_known_default()), parts })
    }

    /// Returns whether another place is this one, or below it.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.origin == other.origin && other.parts.starts_with(&self.parts)
    }

    /// Returns whether its path leads out of its folder once a server has decoded it.
    pub(super) fn climbs(&self) -> bool {
        self.parts.iter().any(|part| part.split(['/', '\\']).any(|name| name == ".."))
    }

    /// Returns whether it is a neighbour without a router between, such as a cloud's metadata service: never a place of data.
    pub(super) fn is_link_local(&self) -> bool {
        let name = self.origin.1.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        match name.parse::<IpAddr>() {
            Ok(address) => is_link_local(address),
            Err(_) => name.eq_ignore_ascii_case("metadata.google.internal"),
        }
    }

    /// Returns the key of the place at its host.
    pub(super) fn key(&self) -> String {
        self.parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(prefixes: &[&str]) -> Hosts {
        let urls: Vec<StoreUrl> = prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect();
        Hosts::Allowed(urls.iter().filter_map(RemotePlace::of).collect())
    }

    fn redirect(hosts: &Hosts, from: &str, to: &str) -> Option<String> {
        let (from, to): (Url, Url) = (from.parse().unwrap(), to.parse().unwrap());
        hosts.check_redirect(&[from], &to).err().map(|refused| refused.to_string())
    }

    #[test]
    fn public_hosts_lead_to_no_neighbour_however_their_address_is_written() {
        for url in [
            "http://127.0.0.1/x",
            "http://2852039166/latest",
            "http://0x7f.1/x",
            "http://[::ffff:169.254.169.254]/latest",
            "http://\u{ff11}\u{ff16}\u{ff19}.254.169.254/latest",
            "http://169\u{3002}254\u{3002}169\u{3002}254/latest",
            "http://[64:ff9b::a9fe:a9fe]/x",
        ] {
            assert!(Hosts::Public.check_url(&url.parse().unwrap()).is_err(), "{url}");
        }
        assert!(Hosts::Public.check_url(&"https://93.184.216.34/x".parse().unwrap()).is_ok());
        assert!(Hosts::Public.check_url(&"https://data.example.org/x".parse().unwrap()).is_ok());
    }

    #[test]
    fn what_the_user_named_may_be_a_neighbour_but_never_link_local() {
        let hosts = allowed(&["http://10.0.0.1/data"]);
        assert!(hosts.check_address("a", "10.0.0.1".parse().unwrap()).is_ok());
        assert!(hosts.check_address("a", "169.254.169.254".parse().unwrap()).is_err());
        assert!(Hosts::Named.check_address("a", "169.254.169.254".parse().unwrap()).is_ok());
    }

    #[test]
    fn redirects_stay_below_the_prefixes_that_were_named() {
        let hosts = allowed(&["http://a.org:81/data", "https://b.org"]);
        assert_eq!(redirect(&hosts, "http://a.org:81/data/x", "http://a.org:81/data/y"), None);
        assert_eq!(redirect(&hosts, "http://a.org:81/data/x", "https://b.org/y"), None);
        assert_eq!(
            redirect(&hosts, "http://a.org:81/data/x", "http://c.org/y").unwrap(),
            "`a.org:81` redirects to `c.org`, and no --allow-prefix covers that"
        );
        for to in ["http://a.org/data/y", "http://a.org:81/other", "http://a.org:81/data/%2e%2e%2fx"] {
            assert!(redirect(&hosts, "http://a.org:81/data/x", to).is_some(), "{to}");
        }
        assert!(redirect(&Hosts::Public, "http://c.org/x", "http://d.org/x").is_none());
        assert!(redirect(&Hosts::Public, "http://c.org/x", "http://10.1.2.3/x").is_some());
        let chain: Vec<Url> = (0..=10).map(|at| format!("http://c.org/{at}").parse().unwrap()).collect();
        assert!(Hosts::Public.check_redirect(&chain, &chain[0]).is_err());
    }

    #[test]
    fn a_target_below_a_prefix_may_lead_to_its_host_and_others_to_public_ones() {
        let prefixes: Vec<StoreUrl> = vec!["http://localhost:80/data".parse().unwrap()];
        let hosts = |target: &str| Hosts::of_target(&target.parse().unwrap(), &prefixes);
        assert!(matches!(hosts("http://localhost/data/x"), Hosts::Allowed(_)));
        assert!(matches!(hosts("http://localhost/other"), Hosts::Public));
        assert!(matches!(hosts("http://localhost:8080/data/x"), Hosts::Public));
    }
}
