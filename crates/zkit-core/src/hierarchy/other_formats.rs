//! Files of other formats, by how they begin: who names one learns what it is, and what to do.

use std::path::Path;

use crate::error::{Error, ErrorKind};

/// Bytes from the start of a file that tell what it is.
pub(super) const HEAD_BYTES: u64 = 512;

const CONVERT: &str = "zkit reads Zarr: convert it with xarray, or write kerchunk references";
const CONVERT_TABLE: &str = "zkit reads Zarr: convert it with xarray or pandas";
const UNPACK: &str = "unpack it first, and name the store in it";

/// What a file is, and what to do with it.
type Format = (&'static str, &'static str);

/// How files of a format begin, and what they are.
const BEGINNINGS: [(&[u8], Format); 19] = [
    (b"CDF\x01", ("netCDF (classic)", CONVERT)),
    (b"CDF\x02", ("netCDF (64-bit offset)", CONVERT)),
    (b"CDF\x05", ("netCDF (64-bit data)", CONVERT)),
    (b"PAR1", ("Parquet", CONVERT_TABLE)),
    (b"GRIB", ("GRIB", CONVERT)),
    (b"II*\0", ("TIFF", CONVERT)),
    (b"MM\0*", ("TIFF", CONVERT)),
    (b"II+\0", ("BigTIFF", CONVERT)),
    (b"MM\0+", ("BigTIFF", CONVERT)),
    (b"\x93NUMPY", ("a NumPy array (.npy)", "zkit reads Zarr: convert it with zarr.save or xarray")),
    (b"\x0e\x03\x13\x01", ("HDF4", CONVERT)),
    (b"SQLite format 3\0", ("a SQLite database", CONVERT_TABLE)),
    (b"\x28\xb5\x2f\xfd", ("compressed with zstd", UNPACK)),
    (b"\xfd7zXZ\0", ("compressed with xz", UNPACK)),
    (b"BZh", ("compressed with bzip2", UNPACK)),
    (b"\x04\x22\x4d\x18", ("compressed with lz4", UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", ("a 7z archive", UNPACK)),
    (b"Rar!", ("a RAR archive", UNPACK)),
    (b"\x1f\x8b", ("compressed with gzip", UNPACK)),
];

/// Returns the error for a file of another format, if it is one, from its first [`HEAD_BYTES`].
pub(super) fn refused(path: &Path, head: &[u8]) -> Option<Error> {
    let (what, hint) = format_of(path, head)?;
    let message = format!("could not open {} as a store: it is {what}", path.display());
    Some(Error::new(ErrorKind::Unsupported, message).with_hint(hint))
}

fn format_of(path: &Path, head: &[u8]) -> Option<Format> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let ends_in = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if head.starts_with(b"\x89HDF\r\n\x1a\n") {
        let is_netcdf = ends_in(&[".nc", ".nc4", ".netcdf", ".cdf"]);
        return Some((if is_netcdf { "netCDF (HDF5)" } else { "HDF5" }, CONVERT));
    }
    if head.get(257..262) == Some(b"ustar") || ends_in(&[".tar"]) {
        return Some(("a tar archive", UNPACK));
    }
    if let Some((_, format)) = BEGINNINGS.iter().find(|(beginning, _)| head.starts_with(beginning)) {
        let is_tar = format.1 == UNPACK && (name.contains(".tar.") || ends_in(&[".tgz", ".tbz2", ".txz"]));
        return Some(if is_tar { ("a compressed tar archive", UNPACK) } else { *format });
    }
    ends_in(&[".csv", ".tsv"]).then_some(("a table in text (CSV)", CONVERT_TABLE))
}

/// Returns what a remote file is by its name alone, and what to do with it.
pub(super) fn hint_of_name(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let ends_in = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if ends_in(&[".nc", ".nc4", ".h5", ".hdf5", ".hdf", ".grib", ".grib2", ".grb", ".grb2", ".tif", ".tiff"])
    {
        return Some(CONVERT);
    }
    if ends_in(&[".parquet", ".csv", ".tsv"]) {
        return Some(CONVERT_TABLE);
    }
    ends_in(&[".tar", ".gz", ".tgz", ".zst", ".xz", ".bz2", ".7z"]).then_some(UNPACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(name: &str, head: &[u8]) -> Option<String> {
        refused(Path::new(name), head).map(|error| error.to_string())
    }

    #[test]
    fn files_of_other_formats_are_named() {
        let tar = [&[0; 257][..], b"ustar\x0000"].concat();
        for (name, head, expected) in [
            ("x.nc", &b"\x89HDF\r\n\x1a\n.."[..], "netCDF (HDF5)"),
            ("x.h5", b"\x89HDF\r\n\x1a\n..", "HDF5"),
            ("x.nc", b"CDF\x01...", "netCDF (classic)"),
            ("x", b"PAR1", "Parquet"),
            ("x.grib2", b"GRIB\0\0", "GRIB"),
            ("x.tif", b"II*\0", "TIFF"),
            ("x.npy", b"\x93NUMPY\x01", "a NumPy array (.npy)"),
            ("x.tar", &tar, "a tar archive"),
            ("x.zarr", &tar, "a tar archive"),
            ("x.tar.gz", b"\x1f\x8b\x08", "a compressed tar archive"),
            ("x.tgz", b"\x1f\x8b\x08", "a compressed tar archive"),
            ("x.zst", b"\x28\xb5\x2f\xfd", "compressed with zstd"),
            ("x.csv", b"a,b\n1,2\n", "a table in text (CSV)"),
        ] {
            let expected = format!("could not open {name} as a store: it is {expected}");
            assert_eq!(what(name, head), Some(expected));
        }
        assert_eq!(what("x.bin", b"\0\0\0\0"), None);
        assert_eq!(what("x.json", b"{}"), None);
        assert!(hint_of_name("a.NC").is_some() && hint_of_name("a.zarr").is_none());
    }
}
