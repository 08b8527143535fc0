//! What to say of stores that are no plain Zarr stores.

use zkit_core::hierarchy::{Container, Hierarchy, StoreKind};

/// Returns what a store is called.
pub(crate) fn kind_in_words(hierarchy: &Hierarchy) -> String {
    let kind = match hierarchy.kind {
        StoreKind::Zarr => {
            let formats: Vec<String> = hierarchy.formats().iter().map(ToString::to_string).collect();
            if formats.is_empty() { "Zarr".into() } else { format!("Zarr {}", formats.join(" and ")) }
        }
        StoreKind::N5 => "N5".into(),
        StoreKind::KerchunkJson => "kerchunk references (JSON)".into(),
        StoreKind::KerchunkParquet => "kerchunk references (parquet)".into(),
        StoreKind::Icechunk => "Icechunk repository".into(),
        StoreKind::Unknown => "unknown".into(),
    };
    let container = match hierarchy.container {
        Container::Directory => "in a directory",
        Container::ObjectStore => "in an object store",
        Container::Zip => "in a zip file",
        Container::File => "in a file",
    };
    format!("{kind}, {container}")
}

/// Returns what the reader can do with a store that zkit does not read, or reads in part; `None` for the others.
pub(crate) fn explanation(hierarchy: &Hierarchy) -> Option<&'static str> {
    match hierarchy.kind {
        StoreKind::Zarr => None,
        StoreKind::N5 => Some(
            "This is an N5 container, a relative of Zarr with metadata in attributes.json and big-endian, transposed \
             blocks. zkit recognises it, but does not read it: tensorstore's n5 driver does.",
        ),
        StoreKind::KerchunkJson | StoreKind::KerchunkParquet => Some(
            "These are kerchunk references: they name byte ranges of other files (NetCDF, GRIB, HDF5) instead of holding \
             chunks, so a copy of the references alone holds no data. Files beside the references are read; others where \
             --allow-prefix names what lies above them.",
        ),
        StoreKind::Icechunk => Some(
            "This is an Icechunk repository: versions of Zarr hierarchies behind snapshots and manifests; its chunks are no \
             files of a Zarr store. zkit recognises it, but does not read it: the icechunk library does.",
        ),
        StoreKind::Unknown => Some(
            "No Zarr metadata was found: no zarr.json, .zarray, .zgroup or .zmetadata. If the store lies deeper, name its own \
             folder; if it is being copied, its metadata may not have arrived.",
        ),
    }
}
