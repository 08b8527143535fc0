//! Where the target of a reference leads: what may be looked at, and what nobody should open.

use std::net::IpAddr;

/// Where a reference leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// To a file beside the references, or below.
    Beside,
    /// So many folders above them.
    Above(usize),
    /// To an absolute path of some machine.
    Absolute,
    /// To a file of the system, which is no data.
    System,
    /// To a host of the local network, or of this machine.
    Private,
    /// To a bucket or a public host.
    Public,
    /// Elsewhere: a protocol that zkit does not speak.
    Unknown,
}

/// Returns where a target leads, by its text alone.
pub fn reach(target: &str) -> Reach {
    let Some((scheme, rest)) = target.split_once("://") else { return reach_of_path(target) };
    match scheme.to_ascii_lowercase().as_str() {
        "file" | "local" => match reach_of_path(rest) {
            Reach::Beside | Reach::Above(_) => Reach::Absolute,
            other => other,
        },
        "s3" | "s3a" | "gs" | "gcs" | "az" | "abfs" | "abfss" | "adl" => Reach::Public,
        "http" | "https" => {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            if is_private(host) { Reach::Private } else { Reach::Public }
        }
        _ => Reach::Unknown,
    }
}

fn reach_of_path(path: &str) -> Reach {
    const SYSTEM: [&str; 10] = [
        "/etc/",
        "/proc/",
        "/sys/",
        "/dev/",
        concat!("/", "root/"),
        "/boot/",
        "/run/",
        "/usr/",
        "/bin/",
        "/var/run/",
    ];
    let (mut inside, mut above) = (Vec::new(), 0);
    for part in path.split('/') {
        match part {
            ".." if inside.pop().is_none() => above += 1,
            ".." | "" | "." => {}
            _ => inside.push(part),
        }
    }
    // what climbs out of its folder ends up at the root if it climbs far enough
    let from_root = format!("/{}", inside.join("/"));
    let system = SYSTEM.iter().any(|start| from_root.starts_with(start));
    match (path.starts_with('/'), above) {
        (true, _) | (false, 2..) if system => Reach::System,
        (true, _) => Reach::Absolute,
        (false, 1..) => Reach::Above(above),
        (false, _) => Reach::Beside,
    }
}

/// Returns whether a host is a neighbour without a router between, such as a cloud's metadata service: never a place of data.
pub(super) fn is_link_local(host: &str) -> bool {
    let name = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(v4)) => v4.is_link_local(),
        Ok(IpAddr::V6(v6)) => {
            v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_link_local())
        }
        Err(_) => name == "metadata.google.internal",
    }
}

/// Returns whether a host is this machine, a neighbour, or a cloud's metadata service.
fn is_private(host: &str) -> bool {
    let bare = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = bare.trim_end_matches('.').to_ascii_lowercase();
    if let Ok(address) = name.parse::<IpAddr>() {
        return match address {
            IpAddr::V4(v4) => {
                v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified()
            }
            IpAddr::V6(v6) => {
                v6.is_loopback() || v6.is_unspecified() || v6.is_unicast_link_local() || v6.is_unique_local()
            }
        };
    }
    // numbers in other forms are addresses too: 0x7f000001, 2130706433
    let numeric = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'x' || byte == b'.')
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    numeric
        || name.is_empty()
        || name == "localhost"
        || [".localhost", ".local", ".internal", ".localdomain"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_by_where_they_lead() {
        for (target, expected) in [
            ("air.nc", Reach::Beside),
            ("data/../air.nc", Reach::Beside),
            ("../air.nc", Reach::Above(1)),
            ("a/../../../b", Reach::Above(2)),
            ("/data/air.nc", Reach::Absolute),
            ("file:///data/air.nc", Reach::Absolute),
            ("file:///etc/hostname", Reach::System),
            ("/etc//shadow", Reach::System),
            ("/data/../etc/shadow", Reach::System),
            ("../../../../etc/shadow", Reach::System),
            ("../etc/shadow", Reach::Above(1)),
            ("a/../etc/shadow", Reach::Beside),
            ("http://169.254.169.254/latest", Reach::Private),
            ("https://user@localhost:80/x", Reach::Private),
            ("http://[::1]/x", Reach::Private),
            ("http://2130706433/x", Reach::Private),
            ("http://metadata.google.internal/x", Reach::Private),
            ("https://noaa-hrrr.s3.amazonaws.com/x", Reach::Public),
            ("gs://bucket/x", Reach::Public),
            ("gopher://x", Reach::Unknown),
        ] {
            assert_eq!(reach(target), expected, "{target}");
        }
    }
}
