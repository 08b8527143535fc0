//! Where a destination may lie, and how much room there is.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;

/// Checks that a destination is neither its source nor inside or around it, links resolved.
pub fn check_apart(source: &StoreUrl, destination: &Path) -> Result<()> {
    let Some(source) = source.local_path().and_then(|path| path.canonicalize().ok()) else { return Ok(()) };
    // the destination need not exist yet: resolve what does
    let absolute = std::path::absolute(destination).unwrap_or_else(|_| destination.to_owned());
    let existing = absolute.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    let resolved = match existing {
        Some((ancestor, resolved)) => resolved.join(absolute.strip_prefix(ancestor).unwrap_or(Path::new(""))),
        None => absolute,
    };
    let relation = match (resolved.starts_with(&source), source.starts_with(&resolved)) {
        (true, true) => "is the source itself",
        (true, false) => "lies inside the source",
        (false, true) => "contains the source",
        (false, false) => return Ok(()),
    };
    let message = format!("the destination {} {relation}", destination.display());
    Err(Error::new(ErrorKind::Usage, message).with_hint("name a destination beside the source"))
}

/// Returns the bytes that are free for ordinary users where `path` is or will be.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path
        .ancestors()
        .map(|ancestor| if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor });
    let stat = existing
        .filter(|ancestor| ancestor.exists())
        .find_map(|ancestor| rustix::fs::statvfs(ancestor).ok())?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_and_destination_must_lie_apart() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.zarr");
        std::fs::create_dir(&source).unwrap();
        std::os::unix::fs::symlink(&source, folder.path().join("link")).unwrap();
        let url = StoreUrl::Local(source.clone());
        for bad in [
            source.clone(),
            source.join("b/c.zarr"),
            folder.path().to_owned(),
            folder.path().join("link"),
            folder.path().join("link/x"),
            source.join("../a.zarr"),
        ] {
            assert_eq!(check_apart(&url, &bad).unwrap_err().kind(), ErrorKind::Usage, "{}", bad.display());
        }
        check_apart(&url, &folder.path().join("a.zarr2")).unwrap();
    }
}
