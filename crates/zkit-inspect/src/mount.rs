//! Whether a local path is a network file system or a bucket in disguise.

use std::path::{Path, PathBuf};

/// A mount that is not a disk of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteMount {
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// The kind of file system: `fuse.gcsfuse`, `nfs4`.
    pub(crate) kind: String,
    /// The bucket's own URL of the path, where the mount names its bucket.
    pub(crate) url: Option<String>,
}

/// Network file systems of Linux, by the name in `mountinfo`.
const NETWORK_KINDS: [&str; 12] =
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "afs", "9p", "virtiofs"];

/// Returns the network or FUSE mount that a path lies on, if it does; always `None` where the system does not say.
pub(crate) fn of_path(path: &Path) -> Option<RemoteMount> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    find(&table, &path.canonicalize().ok()?)
}

/// Source: proc(5), "/proc/pid/mountinfo".
fn find(table: &str, path: &Path) -> Option<RemoteMount> {
    let mounts = table.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = PathBuf::from(unescaped(before.split(' ').nth(4)?));
        let mut words = after.split(' ');
        Some((point, words.next()?, words.next()?))
    });
    // the last one of the longest: later mounts cover earlier ones
    let covering = mounts.filter(|(point, ..)| path.starts_with(point));
    let (point, kind, source) = covering.max_by_key(|(point, ..)| point.components().count())?;
    let remote = kind.starts_with("fuse")
        && !matches!(kind, "fuseblk" | "fusectl" | "fuse.fuse-overlayfs" | "fuse.lxcfs");
    if !remote && !NETWORK_KINDS.contains(&kind) {
        return None;
    }
    let inside = path.strip_prefix(&point).unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let url = bucket_url(kind, &unescaped(source), &inside);
    Some(RemoteMount { kind: kind.to_owned(), url, point })
}

/// Returns the URL of a path on a mount that names its bucket.
fn bucket_url(kind: &str, source: &str, inside: &str) -> Option<String> {
    let is_bucket = !source.is_empty()
        && source.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let scheme = match kind {
        "fuse.gcsfuse" => "gs",
        "fuse.s3fs" | "fuse.goofys" | "fuse.mount-s3" if source != "s3fs" && source != "mountpoint-s3" => {
            "s3"
        }
        _ => return None,
    };
    is_bucket.then(|| format!("{scheme}://{source}/{inside}").trim_end_matches('/').to_owned())
}

/// Undoes the octal escapes of `mountinfo`: space, tab, newline, backslash.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 0:40 / /mnt/my\\040bucket rw,nosuid shared:9 - fuse.gcsfuse era5-cache rw,user_id=0
32 22 0:41 / /mnt/share rw - nfs4 server:/export rw
33 31 8:2 / /mnt/my\\040bucket/local rw - xfs /dev/sdb1 rw
34 22 0:42 / /mnt/s3 rw - fuse.s3fs s3fs rw
";

    #[test]
    fn buckets_behind_fuse_are_named_by_their_own_url() {
        let mount = find(TABLE, Path::new("/mnt/my bucket/a/b.zarr")).unwrap();
        assert_eq!(mount.url.as_deref(), Some("gs://era5-cache/a/b.zarr"));
        assert_eq!(mount.kind, "fuse.gcsfuse");
        assert_eq!(find(TABLE, Path::new("/mnt/s3/b.zarr")).unwrap().url, None);
        assert_eq!(find(TABLE, Path::new("/mnt/share/b.zarr")).unwrap().kind, "nfs4");
    }

    #[test]
    fn disks_are_no_remote_mounts() {
        assert_eq!(find(TABLE, Path::new("/data/b.zarr")), None);
        assert_eq!(find(TABLE, Path::new("/mnt/my bucket/local/b.zarr")), None);
        assert_eq!(find("", Path::new("/data")), None);
        assert_eq!(find("no table\n - \n", Path::new("/data")), None);
    }
}
