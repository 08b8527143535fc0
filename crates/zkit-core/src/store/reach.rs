//! Where the target of a reference leads: what may be looked at, and what nobody should open.

use url::{Host, Url};

use super::addresses::special;

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
        "http" | "https" => reach_of_web(target),
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

/// Returns where a URL of a web server leads, by the host that is asked: written in other digits, it is the same.
fn reach_of_web(target: &str) -> Reach {
    let Ok(url) = Url::parse(target) else { return Reach::Unknown };
    let address = match url.host() {
        Some(Host::Domain(name)) if is_private_name(name) => return Reach::Private,
        Some(Host::Domain(_)) => return Reach::Public,
        Some(Host::Ipv4(v4)) => v4.into(),
        Some(Host::Ipv6(v6)) => v6.into(),
        None => return Reach::Unknown,
    };
    if special(address).is_some() { Reach::Private } else { Reach::Public }
}

/// Returns whether a name is that of this machine, of a neighbour, or of a cloud's metadata service.
fn is_private_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name.is_empty()
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
            ("http://[::ffff:10.1.2.3]/x", Reach::Private),
            ("http://\u{2460}\u{2465}\u{2468}.254.169.254/x", Reach::Private),
            ("http://\u{24db}ocalhost/x", Reach::Private),
            ("http://100.64.0.9/x", Reach::Private),
            ("http://93.184.216.34/x", Reach::Public),
            ("http://[::1/x", Reach::Unknown),
            ("https://noaa-hrrr.s3.amazonaws.com/x", Reach::Public),
            ("gs://bucket/x", Reach::Public),
            ("gopher://x", Reach::Unknown),
        ] {
            assert_eq!(reach(target), expected, "{target}");
        }
    }
}
