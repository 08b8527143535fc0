//! What the name of an object says, where it is no chunk.

/// Objects of a node that are no chunks. The last ones are NCZarr's.
const METADATA_NAMES: [&str; 10] = [
    "zarr.json",
    ".zarray",
    ".zattrs",
    ".zgroup",
    ".zmetadata",
    ".nczarr",
    ".nczvar",
    ".ncattr",
    ".nczattr",
    ".nczgroup",
];

/// Ends of names that writers give to what is not complete.
const TEMPORARY_ENDS: [&str; 7] = [".partial", ".__lock", "_.gstmp", ".tmp", ".temp", ".crdownload", ".part"];

/// What an object is by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// A document of Zarr or of one of its dialects.
    Metadata,
    /// Left over by a write that did not end.
    Temporary,
    /// Said to be kept elsewhere: DVC's sidecar.
    Sidecar,
    /// Nothing that a reader of Zarr uses.
    Foreign,
}

/// Returns what an object is by its key.
pub(super) fn named(key: &str) -> Named {
    let name = key.rsplit('/').next().unwrap_or(key);
    if METADATA_NAMES.contains(&name) {
        Named::Metadata
    } else if key.split('/').any(is_temporary) {
        Named::Temporary
    } else if name.ends_with(".dvc") && name.len() > 4 {
        Named::Sidecar
    } else {
        Named::Foreign
    }
}

/// Returns whether the last part of a key is a name of what an unfinished write leaves.
pub(super) fn ends_unfinished(key: &str) -> bool {
    is_temporary(key.rsplit('/').next().unwrap_or(key))
}

/// Returns whether a store's own name says that its writer did not complete it: zkit builds `NAME.partial`, scripts
/// `NAME.tmp`. What programs call the folders of their temporary files says nothing of what lies in them.
pub fn is_unfinished_store(name: &str) -> bool {
    TEMPORARY_ENDS.iter().any(|end| name.len() > end.len() && name.ends_with(end))
}

/// Returns whether writers give such names to what is not complete.
///
/// Sources: zarr-python (`NAME.UUID.partial`), tensorstore (`NAME.__lock`), object_store (`NAME#1`), gcsfuse
/// (`.gcsfuse_tmp`), gsutil (`NAME_.gstmp`), rclone (`NAME.partial`), rsync (`.NAME.a1B2c3`), the AWS command line
/// (`NAME.a1B2C3d4`), NFS (`.nfs0000`), FUSE (`.fuse_hidden0000`), scripts that rename (`NAME.tmp.1234`, `NAME.tmp-a1b2`).
fn is_temporary(name: &str) -> bool {
    const STARTS: [&str; 4] = [".gcsfuse_tmp", ".nfs0", ".fuse_hidden", ".tmp"];
    const INSIDE: [&str; 2] = [".tmp.", ".tmp-"];
    if TEMPORARY_ENDS.iter().any(|end| name.ends_with(end))
        || STARTS.iter().any(|start| name.starts_with(start))
        || INSIDE.iter().any(|part| name.contains(part))
    {
        return true;
    }
    if let Some((stem, number)) = name.rsplit_once('#') {
        return !stem.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    }
    let Some((stem, suffix)) = name.rsplit_once('.') else { return false };
    let mixed = suffix.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && suffix.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_known = |stem: &str| chunk_like(stem) || METADATA_NAMES.contains(&stem);
    match stem.strip_prefix('.') {
        Some(hidden) if mixed && suffix.len() == 6 => is_known(hidden) || is_known(stem),
        _ => mixed && suffix.len() == 8 && is_known(stem),
    }
}

/// Returns whether a key looks like that of a chunk of some array: numbers, with or without a `c` in front.
pub(super) fn chunk_like(key: &str) -> bool {
    let rest = key.strip_prefix("c/").or_else(|| key.strip_prefix("c.")).unwrap_or(key);
    !rest.is_empty()
        && rest
            .split(['/', '.'])
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unfinished_writes_are_known() {
        let temporary = [
            "0.0.0f8a.partial",
            "c/0/1.partial/x",
            "0.0.0.__lock",
            "c/3#1",
            ".gcsfuse_tmp/ab",
            "0.0_.gstmp",
            ".0.0.Ab3dEf",
            "0.0.6eF8A2b1",
            "..zarray.Ab3dEf",
            ".nfs00000001",
            "t2m.zarr.tmp/0",
            "zarr.json.tmp.4711",
        ];
        for key in temporary {
            assert_eq!(named(key), Named::Temporary, "{key}");
        }
        for key in
            ["README.markdown", ".DS_Store", "0.0.0", "c/0/1", "notes.v2", "a#b", "OME/METADATA.ome.xml"]
        {
            assert_eq!(named(key), Named::Foreign, "{key}");
        }
        assert_eq!(named("t2m/.zarray"), Named::Metadata);
        assert!(ends_unfinished("chunks/C4CVJY2HT7H474V7T6CG#1"));
        assert!(!ends_unfinished("refs/branch.next.tmp/ref.json"));
        assert_eq!(named("t2m.dvc"), Named::Sidecar);
    }

    #[test]
    fn stores_that_are_not_complete_are_known_by_their_names() {
        assert!(["a.zarr.partial", "a.zarr.tmp"].into_iter().all(is_unfinished_store));
        assert!(!["a.zarr", ".partial", ".tmpAb3dEf", "partial"].into_iter().any(is_unfinished_store));
    }

    #[test]
    fn keys_of_chunks_look_like_numbers() {
        for key in ["0", "0.0.1", "c/0/1", "c.0", "12/3"] {
            assert!(chunk_like(key), "{key}");
        }
        for key in ["", "c", "c/", "0..1", "a/0", "0.x"] {
            assert!(!chunk_like(key), "{key}");
        }
    }
}
