//! The checksums that servers keep of whole objects, and what needs none of them.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{ETAG, HeaderMap};
use md5::{Digest as _, Md5};

use crate::location::Scheme;

/// What is made of the checksums that servers keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreChecksums {
    /// Whole objects are compared with them.
    #[default]
    Compared,
    /// They are not looked at: for servers whose entity tags look like MD5 and are something else.
    Ignored,
}

/// What a server says that the bytes of an object sum up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreChecksum {
    /// CRC-32C, as GCS keeps it.
    Crc32c(u32),
    /// MD5: the entity tag in S3, `Content-MD5` in Azure and elsewhere.
    Md5([u8; 16]),
}

impl StoreChecksum {
    /// Returns what the answer to a read of a whole object promises.
    pub(super) fn promised(headers: &HeaderMap, scheme: Scheme) -> Option<Self> {
        match scheme {
            Scheme::Gcs => of_google(headers),
            Scheme::S3 => of_amazon(headers),
            Scheme::Azure | Scheme::Http => None,
        }
        .or_else(|| md5_of(headers.get("content-md5")?.to_str().ok()?))
    }

    /// Returns whether bytes are those that were stored.
    pub(super) fn fits(self, bytes: &[u8]) -> bool {
        match self {
            Self::Crc32c(expected) => crc32c::crc32c(bytes) == expected,
            Self::Md5(expected) => Md5::digest(bytes)[..] == expected,
        }
    }
}

impl std::fmt::Display for StoreChecksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Crc32c(sum) => write!(f, "crc32c {sum:08x}"),
            Self::Md5(sum) => {
                f.write_str("md5 ")?;
                sum.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// <https://docs.cloud.google.com/storage/docs/xml-api/reference-headers#xgooghash>
fn of_google(headers: &HeaderMap) -> Option<StoreChecksum> {
    // what is unpacked on its way has another sum than what is stored
    let stored_as = headers.get("x-goog-stored-content-encoding").and_then(|value| value.to_str().ok());
    if stored_as.is_some_and(|encoding| encoding != "identity") {
        return None;
    }
    let sums = headers.get_all("x-goog-hash").iter().filter_map(|value| value.to_str().ok());
    let sums: Vec<&str> = sums.flat_map(|value| value.split(',')).map(str::trim).collect();
    let named = |name: &str| sums.iter().find_map(|sum| sum.strip_prefix(name));
    let crc32c = named("crc32c=").and_then(|text| BASE64_STANDARD.decode(text).ok());
    crc32c
        .and_then(|bytes| Some(StoreChecksum::Crc32c(u32::from_be_bytes(bytes.try_into().ok()?))))
        .or_else(|| md5_of(named("md5=")?))
}

/// An entity tag is an MD5 unless the object was sent in parts or is encrypted with keys of its own:
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html>
fn of_amazon(headers: &HeaderMap) -> Option<StoreChecksum> {
    let says = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if says("x-amz-server-side-encryption").is_some_and(|how| how != "AES256")
        || says("x-amz-server-side-encryption-customer-algorithm").is_some()
    {
        return None;
    }
    let tag = headers.get(ETAG)?.to_str().ok()?.trim_matches('"');
    if tag.len() != 32 || !tag.is_ascii() {
        return None;
    }
    let mut sum = [0; 16];
    for (byte, digits) in sum.iter_mut().zip(tag.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(StoreChecksum::Md5(sum))
}

fn md5_of(text: &str) -> Option<StoreChecksum> {
    Some(StoreChecksum::Md5(BASE64_STANDARD.decode(text.trim()).ok()?.try_into().ok()?))
}

/// Folders of chunks whose codecs sum them up when they are decoded.
#[derive(Debug, Default)]
pub(super) struct Covered(RwLock<HashSet<String>>);

impl Covered {
    /// Says whether chunks below a prefix are summed up.
    pub(super) fn say(&self, prefix: &str, is_summed_up: bool) {
        let mut folders = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if is_summed_up {
            folders.insert(prefix.to_owned());
        } else {
            folders.remove(prefix);
        }
    }

    /// Returns whether an object is such a chunk.
    pub(super) fn holds(&self, key: &str) -> bool {
        let covered = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
        let is_document = name.starts_with(".z") || name == "zarr.json";
        let mut folders = folder.match_indices('/').map(|(at, _)| &folder[..at]).chain(["", folder]);
        !is_document && !covered.is_empty() && folders.any(|folder| covered.contains(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promised(scheme: Scheme, headers: &[(&'static str, &str)]) -> Option<StoreChecksum> {
        let headers = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
        });
        StoreChecksum::promised(&headers.collect(), scheme)
    }

    #[test]
    fn checksums_of_each_cloud_fit_the_bytes_that_they_were_made_of() {
        // MD5 of nothing: RFC 1321, appendix A.5
        let empty = promised(Scheme::S3, &[("etag", "\"d41d8cd98f00b204e9800998ecf8427e\"")]).unwrap();
        assert!(empty.fits(b"") && !empty.fits(b"x"));
        let google = promised(Scheme::Gcs, &[("x-goog-hash", "crc32c=4waSgw==,md5=xxxx")]).unwrap();
        // RFC 3720, appendix B.4: nine digits
        assert_eq!(google, StoreChecksum::Crc32c(0xe306_9283));
        assert!(google.fits(b"123456789"));
        let azure = promised(Scheme::Azure, &[("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")]).unwrap();
        assert!(azure.fits(b""));
    }

    #[test]
    fn chunks_of_an_array_are_covered_until_they_are_not_decoded_any_more() {
        let covered = Covered::default();
        covered.say("group/a", true);
        for key in ["group/a/0.0", "group/a/c/0/1"] {
            assert!(covered.holds(key), "{key}");
        }
        for key in ["group/a/zarr.json", "group/a/.zarray", "group/ab/0.0", "group/b/c/0/1", "0.0", "group/a"]
        {
            assert!(!covered.holds(key), "{key}");
        }
        covered.say("group/a", false);
        assert!(!covered.holds("group/a/0.0"));
        covered.say("", true);
        assert!(covered.holds("0.0") && covered.holds("c/0/1") && !covered.holds(".zarray"));
    }

    #[test]
    fn tags_that_are_no_checksums_promise_nothing() {
        let parts = [("etag", "\"d41d8cd98f00b204e9800998ecf8427e-2\"")];
        assert_eq!(promised(Scheme::S3, &parts), None);
        let tag = ("etag", "\"d41d8cd98f00b204e9800998ecf8427e\"");
        assert_eq!(promised(Scheme::S3, &[tag, ("x-amz-server-side-encryption", "aws:kms")]), None);
        assert!(promised(Scheme::S3, &[tag, ("x-amz-server-side-encryption", "AES256")]).is_some());
        assert_eq!(promised(Scheme::Http, &[tag]), None);
        let unpacked = [("x-goog-hash", "crc32c=4waSgw=="), ("x-goog-stored-content-encoding", "gzip")];
        assert_eq!(promised(Scheme::Gcs, &unpacked), None);
    }
}
