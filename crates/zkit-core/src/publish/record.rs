//! What a finished store says of the run that wrote it: by it a later run tells whether there is anything left to do.
//!
//! It lies where no reader of Zarr looks, and goes where the store goes: in an extended attribute of the root's metadata
//! document, in a bucket in the document's own metadata. Whoever writes that document again takes it away. There is room
//! for a kilobyte or two, so it holds hashes.

use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::leftover::ROOT_DOCUMENTS;
use crate::engine::{Header, JournalArray};
use crate::error::Result;
use crate::store::RemoteStore;

/// The extended attribute.
const ATTRIBUTE: &str = "user.zkit.copy";
/// The format that this file writes and reads.
const VERSION: u32 = 1;
/// Arrays share so many hashes at most: with more arrays than that, one hash is of several.
const HASHES_MOST: usize = 48;
/// Bytes of options that are kept as text.
const OPTIONS_BYTES_MOST: usize = 400;
/// Bytes of an extended attribute that are read at most.
const ATTRIBUTE_BYTES_MOST: usize = 64 << 10;

/// What a finished store says of the run that wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRecord {
    version: u32,
    /// What the user asked; none where that is too long.
    options: Vec<(String, String)>,
    options_hash: u32,
    source_hash: u32,
    groups_hash: u32,
    arrays: usize,
    /// Of the arrays' paths and metadata in the source.
    #[serde(with = "hexadecimal")]
    documents: Vec<u32>,
    /// Of the source's objects; 0 where these were not taken.
    #[serde(with = "hexadecimal")]
    objects: Vec<u32>,
}

/// What is known of how a finished store came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// A run of zkit wrote it.
    Known(Box<CopyRecord>),
    /// It says nothing: another program or version wrote it, or changed it.
    Nothing,
    /// Its file system keeps no extended attributes.
    Unknowable,
}

impl CopyRecord {
    /// Returns what a store says of a run.
    pub fn of(header: &Header) -> Self {
        let documents = |array: &JournalArray| hash(&format!("{}\n{}", array.path, array.source_document));
        let objects = |array: &JournalArray| match array.fingerprint {
            0 => 0,
            taken => hash(&format!("{taken:032x}")).max(1),
        };
        let text = options_text(&header.options);
        Self {
            version: VERSION,
            options: if text.len() <= OPTIONS_BYTES_MOST { header.options.clone() } else { Vec::new() },
            options_hash: hash(&text),
            source_hash: hash(&header.source),
            groups_hash: hash(&header.groups),
            arrays: header.arrays.len(),
            documents: together(&header.arrays, documents),
            objects: together(&header.arrays, objects),
        }
    }

    /// Returns what differs first between the run that wrote a store and one that asks for it again; objects of the source
    /// are compared where both runs took them, else its address is.
    pub fn difference(&self, later: &Header) -> Option<String> {
        let now = Self::of(later);
        if self.options_hash != now.options_hash {
            return Some(self.difference_of_options(later));
        }
        if self.arrays != now.arrays {
            return Some(format!("there were {} arrays, there are {}", self.arrays, now.arrays));
        }
        let named = |at: usize| name(&later.arrays, at);
        let pairs = || self.documents.iter().zip(&now.documents);
        if let Some(at) = pairs().position(|(was, is)| was != is) {
            return Some(format!("the metadata of {} changed", named(at)));
        }
        let pairs = || self.objects.iter().zip(&now.objects);
        if let Some(at) = pairs().position(|(&was, &is)| was != 0 && is != 0 && was != is) {
            return Some(format!("the objects of {} changed", named(at)));
        }
        let same_objects = pairs().any(|(&was, _)| was != 0) && self.objects == now.objects;
        if !same_objects && self.source_hash != now.source_hash {
            return Some(format!("it was made of another source than {}", later.source));
        }
        (self.groups_hash != now.groups_hash).then(|| "the metadata of the groups changed".to_owned())
    }

    fn difference_of_options(&self, later: &Header) -> String {
        let was = Header { options: self.options.clone(), ..later.clone() };
        match was.difference(later) {
            Some(difference) if !self.options.is_empty() => difference,
            _ => "other options were given".to_owned(),
        }
    }

    /// Returns it as it is stored.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are always JSON")
    }

    /// Returns what is stored, unless that is another version's or damaged.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|record: &Self| record.version == VERSION)
    }

    /// Writes it to a store of this machine, where its file system keeps such things.
    pub(super) fn write_local(&self, root: &Path) {
        let Some(document) = root_document(root) else { return };
        // without it a later run compares the two stores, or refuses: it never takes one for the other
        let _ = rustix::fs::setxattr(&document, ATTRIBUTE, &self.to_bytes(), rustix::fs::XattrFlags::empty());
    }

    /// Reads what a store of this machine says.
    pub(super) fn read_local(root: &Path) -> Recorded {
        let Some(document) = root_document(root) else { return Recorded::Nothing };
        let mut bytes = vec![0; ATTRIBUTE_BYTES_MOST];
        match rustix::fs::getxattr(&document, ATTRIBUTE, &mut bytes[..]) {
            Ok(length) => {
                let record = bytes.get(..length).and_then(Self::parse);
                record.map_or(Recorded::Nothing, |record| Recorded::Known(Box::new(record)))
            }
            Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOSYS) => Recorded::Unknowable,
            Err(_) => Recorded::Nothing,
        }
    }

    /// Reads what a store in a bucket says.
    ///
    /// Cost: a request for each name that a root's document may have, all at once.
    pub(super) fn read_remote(store: &RemoteStore) -> Result<Recorded> {
        let keys: Vec<String> = ROOT_DOCUMENTS.iter().map(|&key| key.to_owned()).collect();
        for labelled in store.labels(&keys) {
            let record = labelled?.and_then(|(label, _)| Self::parse(&label?));
            if let Some(record) = record {
                return Ok(Recorded::Known(Box::new(record)));
            }
        }
        Ok(Recorded::Nothing)
    }
}

/// Returns the document by which readers find a store; the last one that is written.
fn root_document(root: &Path) -> Option<std::path::PathBuf> {
    ROOT_DOCUMENTS.iter().map(|name| root.join(name)).find(|path| path.is_file())
}

fn options_text(options: &[(String, String)]) -> String {
    options.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

/// Hashes each array; neighbours share a hash where there are too many.
fn together(arrays: &[JournalArray], of: impl Fn(&JournalArray) -> u32) -> Vec<u32> {
    arrays
        .chunks(shared(arrays.len()))
        .map(|arrays| match arrays {
            [array] => of(array),
            many => {
                let hashes: Vec<u8> = many.iter().flat_map(|array| of(array).to_le_bytes()).collect();
                // of objects that were not taken
                if hashes.iter().all(|byte| *byte == 0) { 0 } else { low(xxh3_64(&hashes)).max(1) }
            }
        })
        .collect()
}

/// Returns how many arrays share a hash.
fn shared(arrays: usize) -> usize {
    arrays.div_ceil(HASHES_MOST).max(1)
}

/// Names the arrays of a hash.
fn name(arrays: &[JournalArray], at: usize) -> String {
    let size = shared(arrays.len());
    match arrays.chunks(size).nth(at) {
        Some([array]) => format!("`{}`", array.path),
        Some([first, .., last]) => format!("an array from `{}` to `{}`", first.path, last.path),
        _ => "an array".to_owned(),
    }
}

fn hash(text: &str) -> u32 {
    low(xxh3_64(text.as_bytes()))
}

#[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough")]
fn low(hash: u64) -> u32 {
    hash as u32
}

/// Hashes as one text: there is little room.
mod hexadecimal {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(hashes: &[u32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hashes.iter().map(|hash| format!("{hash:08x}")).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = |bytes: &[u8]| {
            let digits = std::str::from_utf8(bytes).map_err(D::Error::custom)?;
            u32::from_str_radix(digits, 16).map_err(D::Error::custom)
        };
        text.as_bytes().chunks(8).map(hash).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(arrays: usize) -> Header {
        let array = |at: usize| JournalArray {
            path: format!("/a{at}"),
            fingerprint: at as u128 + 1,
            source_document: "{}".to_owned(),
            target_codec: String::new(),
        };
        Header {
            options: vec![("--codec".to_owned(), "auto".to_owned())],
            source: "/s.zarr".to_owned(),
            groups: "/ {}".to_owned(),
            arrays: (0..arrays).map(array).collect(),
        }
    }

    #[test]
    fn it_names_what_differs_from_the_run_that_wrote_the_store() {
        let was = CopyRecord::parse(&CopyRecord::of(&header(3)).to_bytes()).unwrap();
        let differs = |change: &dyn Fn(&mut Header)| {
            let mut is = header(3);
            change(&mut is);
            was.difference(&is).unwrap_or_default()
        };
        assert_eq!(was.difference(&header(3)), None);
        assert_eq!(differs(&|is| is.options[0].1 = "zstd:1".into()), "`--codec` was `auto`, is `zstd:1`");
        assert_eq!(differs(&|is| is.arrays[1].fingerprint = 9), "the objects of `/a1` changed");
        assert_eq!(differs(&|is| is.arrays[2].source_document.push(' ')), "the metadata of `/a2` changed");
        assert_eq!(differs(&|is| is.arrays[2].path.push('b')), "the metadata of `/a2b` changed");
        assert_eq!(differs(&|is| is.arrays.truncate(2)), "there were 3 arrays, there are 2");
        assert_eq!(differs(&|is| is.groups.push(' ')), "the metadata of the groups changed");
        // the same objects are the same source, whatever leads to it
        assert_eq!(differs(&|is| is.source = "s.zarr".into()), "");
        let unseen = |is: &mut Header| is.arrays.iter_mut().for_each(|array| array.fingerprint = 0);
        assert_eq!(differs(&unseen), "");
        let other = |is: &mut Header| {
            unseen(is);
            is.source = "/t.zarr".into();
        };
        assert_eq!(differs(&other), "it was made of another source than /t.zarr");
    }

    #[test]
    fn it_stays_small_however_many_arrays_and_options_there_are() {
        let mut many = header(5_000);
        many.options.extend((0..500).map(|at| ("--include".to_owned(), format!("/variable_{at}"))));
        let was = CopyRecord::of(&many);
        assert!(was.to_bytes().len() < 1_500, "{}", was.to_bytes().len());
        assert_eq!(was.difference(&many), None);
        let mut is = many.clone();
        is.arrays[4_000].fingerprint = 0xff;
        assert_eq!(was.difference(&is).unwrap(), "the objects of an array from `/a3990` to `/a4094` changed");
        many.options[7].1.push('x');
        assert_eq!(was.difference(&many).unwrap(), "other options were given");
    }

    #[test]
    fn it_goes_with_the_document_and_not_with_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(CopyRecord::read_local(folder.path()), Recorded::Nothing);
        let document = folder.path().join("zarr.json");
        std::fs::write(&document, "{}").unwrap();
        let record = CopyRecord::of(&header(2));
        record.write_local(folder.path());
        match CopyRecord::read_local(folder.path()) {
            Recorded::Unknowable => return,
            found => assert_eq!(found, Recorded::Known(Box::new(record))),
        }
        assert_eq!(std::fs::read(&document).unwrap(), b"{}");
        std::fs::write(folder.path().join("new"), "{}").unwrap();
        std::fs::rename(folder.path().join("new"), &document).unwrap();
        assert_eq!(CopyRecord::read_local(folder.path()), Recorded::Nothing);
    }
}
