//! Where a destination may lie, and how much room there is.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::location::StoreUrl;

/// Checks that a destination can be a store as zkit writes it: a folder, not a file that its name promises.
///
/// Fails with kind `Usage`.
pub fn check_folder(destination: &StoreUrl) -> Result<()> {
    let name = destination.name().unwrap_or_default();
    let Some(what) = file_of(&name) else { return Ok(()) };
    let folder = folder_name(&name);
    let message =
        format!("could not write {destination}: its name is that of {what}, and zkit writes a folder");
    Err(Error::new(ErrorKind::Usage, message).with_hint(match destination {
        StoreUrl::Local(path) if what == ZIP => {
            let folder = path.with_file_name(&folder);
            format!(
                "write {} instead; to pack it, run `cd {} && python3 -m zipfile -c {} .`",
                folder.display(),
                quoted(&folder.display().to_string()),
                quoted(&format!("../{name}"))
            )
        }
        StoreUrl::Local(path) => format!("write {} instead", path.with_file_name(&folder).display()),
        StoreUrl::Remote { .. } => format!("write {} instead", destination.parent().join(&folder)),
    }))
}

/// Returns the name that a folder gets which holds what a file or folder of this name holds: `a.zarr` for `a.zarr.zip`.
pub fn folder_name(name: &str) -> String {
    match (file_of(name), name.rsplit_once('.')) {
        (Some(_), Some((stem, _))) => format!("{}.zarr", stem.strip_suffix(".zarr").unwrap_or(stem)),
        _ => name.to_owned(),
    }
}

const ZIP: &str = "a zip file";

/// Says what kind of file has such a name.
fn file_of(name: &str) -> Option<&'static str> {
    let (stem, ending) = name.rsplit_once('.')?;
    let what = match ending.to_ascii_lowercase().as_str() {
        "zip" => ZIP,
        "json" => "a JSON file",
        "parq" | "parquet" => "references in parquet",
        "nc" | "nc4" | "h5" | "hdf5" => "a netCDF or HDF5 file",
        "tar" | "tgz" | "gz" => "an archive",
        _ => return None,
    };
    (!stem.is_empty()).then_some(what)
}

/// Quotes a word for a shell, where it must be.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-/".contains(character);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
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
    fn names_of_files_are_no_destinations_and_the_hint_names_a_folder() {
        for (name, word) in [
            ("out.zip", "`cd out.zarr &&"),
            ("a.zarr.ZIP", "write a.zarr instead"),
            ("x.json", "write x.zarr"),
        ] {
            let error = check_folder(&name.parse().unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.hint().unwrap().contains(word), "{:?}", error.hint());
        }
        let error = check_folder(&"s3://b/c/out.zip".parse().unwrap()).unwrap_err();
        assert_eq!(error.hint(), Some("write s3://b/c/out.zarr instead"));
        for name in ["a.zarr", "a", "v1.2", "zip", "s3://b/zip/a"] {
            check_folder(&name.parse().unwrap()).unwrap();
        }
        assert_eq!(folder_name("a.zarr.zip"), "a.zarr");
        assert_eq!(folder_name("a.zarr"), "a.zarr");
    }

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
