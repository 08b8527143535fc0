//! How much memory there is, how much a run may take, and how much it took.

use std::fs;
use std::path::{Path, PathBuf};

use crate::values::MemoryLimit;

/// The share of free memory that a run takes where the user did not say.
const DEFAULT_PERCENT: u8 = 20;

/// What is taken as free where the system does not say how much is.
const UNKNOWN_FREE_BYTES: u64 = 8 << 30;

/// The memory that a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBudget {
    /// The budget.
    pub bytes: u64,
    /// What was free when it was set, where the system says so.
    pub free_bytes: Option<u64>,
}

impl MemoryBudget {
    /// Returns the budget that `limit` asks for; without one, 20 % of what is free.
    pub fn resolve(limit: Option<MemoryLimit>, free_bytes: Option<u64>) -> Self {
        let bytes = match limit.unwrap_or(MemoryLimit::Percent(DEFAULT_PERCENT)) {
            MemoryLimit::Bytes(bytes) => bytes,
            MemoryLimit::Percent(percent) => {
                free_bytes.unwrap_or(UNKNOWN_FREE_BYTES) / 100 * u64::from(percent)
            }
        };
        Self { bytes, free_bytes }
    }
}

/// Returns how much memory the machine, or the cgroup of this process where that is less, has free.
pub fn free_bytes() -> Option<u64> {
    free_bytes_under(Path::new("/"))
}

/// Returns the most memory that this process has held so far; `None` where the system does not say.
pub fn peak_rss_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

/// Returns the memory that this process holds now; `None` where the system does not say.
pub fn rss_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

fn status_bytes(key: &str) -> Option<u64> {
    kibibytes_of(&fs::read_to_string("/proc/self/status").ok()?, key)
}

/// Reads the files of Linux below `root`, which tests replace.
fn free_bytes_under(root: &Path) -> Option<u64> {
    let machine = fs::read_to_string(root.join("proc/meminfo"));
    let machine = machine.ok().and_then(|text| kibibytes_of(&text, "MemAvailable:"));
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let cgroup = groups.lines().filter_map(|line| free_in_cgroup(root, line)).min();
    machine.into_iter().chain(cgroup).min()
}

/// Returns the value of a line `key   123 kB` in bytes.
fn kibibytes_of(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files in which a version of cgroups keeps its numbers.
struct CgroupFiles {
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// The line of `memory.stat` with the page cache that is dropped first.
    inactive: &'static str,
}

const VERSION_1: CgroupFiles = CgroupFiles {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    inactive: "total_inactive_file ",
};

const VERSION_2: CgroupFiles = CgroupFiles {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    inactive: "inactive_file ",
};

/// Returns the memory that the cgroup of a line of `/proc/self/cgroup` has free: the least of it and the
/// groups around it, each `limit - (usage - inactive file cache)`.
fn free_in_cgroup(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
    let files = match controllers {
        "" => &VERSION_2,
        list if list.split(',').any(|controller| controller == "memory") => &VERSION_1,
        _ => return None,
    };
    let mount = root.join(files.mount);
    // In a container the path may be that of the host, which does not exist here; the mount itself does.
    let group = mount.join(group.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|folder| folder.starts_with(&mount)).map(PathBuf::from);
    groups.filter_map(|folder| free_in_folder(&folder, files)).min()
}

fn free_in_folder(folder: &Path, files: &CgroupFiles) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    // `max` is no number and no limit; version 1 writes a number near 2^63, which the machine's free memory
    // beats.
    let limit = read(files.limit)?.trim().parse::<u64>().ok()?;
    let usage = read(files.usage)?.trim().parse::<u64>().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let inactive = stat.lines().find_map(|line| line.strip_prefix(files.inactive)?.trim().parse().ok());
    Some(limit.saturating_sub(usage.saturating_sub(inactive.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Returns what is free on a machine with these files; the machine itself has 16 GiB.
    fn free_with(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let meminfo = ("proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable:   16777216 kB\n");
        for (name, text) in files.iter().chain([&meminfo]) {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        free_bytes_under(root.path())
    }

    #[test]
    fn without_a_cgroup_the_machine_decides() {
        assert_eq!(free_with(&[]), Some(16 * GIB));
        assert_eq!(free_bytes_under(Path::new("/nonexistent")), None);
    }

    #[test]
    fn file_cache_that_is_dropped_first_counts_as_free() {
        let free = free_with(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/a/b/memory.current", "3221225472\n"),
            ("sys/fs/cgroup/a/b/memory.stat", "anon 1\nactive_file 5\ninactive_file 1073741824\n"),
        ]);
        assert_eq!(free, Some(2 * GIB));
    }

    #[test]
    fn a_group_further_up_may_be_tighter() {
        let free = free_with(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/a/memory.current", "0\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "0\n"),
        ]);
        assert_eq!(free, Some(GIB));
    }

    #[test]
    fn version_1_is_read_in_a_container_too() {
        let free = free_with(&[
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n"),
            ("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 1073741824\n"),
        ]);
        assert_eq!(free, Some(GIB));
    }

    #[test]
    fn version_1_without_a_limit_leaves_it_to_the_machine() {
        let free = free_with(&[
            ("proc/self/cgroup", "4:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n"),
        ]);
        assert_eq!(free, Some(16 * GIB));
    }

    #[test]
    fn the_default_is_a_fifth_of_what_is_free() {
        assert_eq!(MemoryBudget::resolve(None, Some(1_000)).bytes, 200);
        assert_eq!(MemoryBudget::resolve(Some(MemoryLimit::Percent(50)), Some(1_000)).bytes, 500);
        assert_eq!(MemoryBudget::resolve(Some(MemoryLimit::Bytes(7)), Some(1_000)).bytes, 7);
        assert!(MemoryBudget::resolve(None, None).bytes > GIB);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_held_at_least_what_it_holds() {
        assert!(rss_bytes().unwrap() > 0);
        assert!(peak_rss_bytes().unwrap() >= rss_bytes().unwrap() / 2);
        assert!(free_bytes().unwrap() > 0);
    }
}
