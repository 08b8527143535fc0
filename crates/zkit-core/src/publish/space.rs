//! Where a destination may lie, and how much room there is.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;

/// Checks that a destination can be a store as zkit writes it: a folder, not a file that its name promises.
///
/// Fails with kind `Usage`.
pub fn check_folder(destination: &StoreUrl) -> Result<()> {
    let name = destination.name().unwrap_or_default();
    let Some((stem, ending)) = name.rsplit_once('.') else { return Ok(()) };
    let what = match ending.to_ascii_lowercase().as_str() {
        "zip" => "a zip file",
        "json" => "a JSON file",
        "parq" | "parquet" => "references in parquet",
        "nc" | "nc4" | "h5" | "hdf5" => "a netCDF or HDF5 file",
        "tar" | "tgz" | "gz" | "zst" => "an archive",
        _ => return Ok(()),
    };
    let stem = if stem.is_empty() { "store" } else { stem };
    let stem = stem.strip_suffix(".zarr").unwrap_or(stem);
    let instead = destination.parent().join(&format!("{stem}.zarr"));
    let message =
        format!("could not write {destination}: zkit writes folders, and its name is that of {what}");
    Err(Error::new(ErrorKind::Usage, message).with_hint(match (ending, instead.local_path()) {
        ("zip", Some(_)) => format!(
            "write {instead} instead; then `(cd {instead} && python3 -m zipfile -c ../{name} .)` packs it, or `zip -0 -r`"
        ),
        _ => format!("write {instead} instead"),
    }))
}

/// Checks that a destination is neither its source nor inside or around it, links resolved.
pub fn check_apart(source: &StoreUrl, destination: &StoreUrl) -> Result<()> {
    let url_of_source = source;
    match (destination, source) {
        (StoreUrl::Local(path), _) => check_apart_locally(source, path),
        (StoreUrl::Remote { url, .. }, StoreUrl::Remote { url: source, .. }) => {
            if url.host_str() != source.host_str() {
                return Ok(());
            }
            let (place, of_source) = (destination.key_parts(), url_of_source.key_parts());
            refuse_relation(&destination.to_string(), &place, &of_source)
        }
        _ => Ok(()),
    }
}

fn check_apart_locally(source: &StoreUrl, destination: &Path) -> Result<()> {
    let Some(source) = source.local_path().and_then(|path| path.canonicalize().ok()) else { return Ok(()) };
    // the destination need not exist yet: resolve what does
    let absolute = std::path::absolute(destination).unwrap_or_else(|_| destination.to_owned());
    let existing = absolute.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    let resolved = match existing {
        Some((ancestor, resolved)) => resolved.join(absolute.strip_prefix(ancestor).unwrap_or(Path::new(""))),
        None => absolute,
    };
    let parts = |path: &Path| -> Vec<std::ffi::OsString> { path.iter().map(ToOwned::to_owned).collect() };
    refuse_relation(&destination.display().to_string(), &parts(&resolved), &parts(&source))
}

/// Refuses a destination whose path begins with the source's, or the other way round.
fn refuse_relation<Part: PartialEq>(place: &str, destination: &[Part], source: &[Part]) -> Result<()> {
    let relation = match (destination.starts_with(source), source.starts_with(destination)) {
        (true, true) => "is the source itself",
        (true, false) => "lies inside the source",
        (false, true) => "contains the source",
        (false, false) => return Ok(()),
    };
    let message = format!("the destination {place} {relation}");
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
            let bad = StoreUrl::Local(bad);
            assert_eq!(check_apart(&url, &bad).unwrap_err().kind(), ErrorKind::Usage, "{bad}");
        }
        check_apart(&url, &StoreUrl::Local(folder.path().join("a.zarr2"))).unwrap();
    }

    #[test]
    fn buckets_are_compared_by_their_keys() {
        let url = |text: &str| text.parse::<StoreUrl>().unwrap();
        let source = url("s3://bucket/a/b.zarr/");
        for bad in [
            "s3://bucket/a/b.zarr",
            "s3a://bucket/a//b.zarr/c",
            "s3://bucket/%61/b.zarr",
            "s3://bucket/a",
            "s3://bucket",
        ] {
            assert_eq!(check_apart(&source, &url(bad)).unwrap_err().kind(), ErrorKind::Usage, "{bad}");
        }
        for good in ["s3://bucket/a/b.zarr2", "s3://other/a/b.zarr", "/a/b.zarr"] {
            check_apart(&source, &url(good)).unwrap();
        }
    }
}
