//! N5 containers: whether the heads of their blocks are what `attributes.json` promises.
//!
//! Source: <https://github.com/saalfeldlab/n5>, "File-system specification": a block is a mode, the number of dimensions and
//! its size in big-endian numbers, then the compressed elements.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::closely::Closeness;
use super::faults::ChunkFault;
use super::files::StoreFiles;
use super::heads::{error_body, pointer};
use super::listing::Keys;
use super::names::{Named, named};
use crate::codec::blosc;
use crate::error::{Error, ErrorKind, Result};
use crate::grid::product;
use crate::metadata::{Defect, Json};
use crate::store::{ObjectKind, Store};

/// Blocks that are looked at, at most.
const BLOCKS_MOST: usize = 1_000_000;
/// Bytes read of the end of a block, or of its start.
const PART_BYTES: u64 = 64;
/// Faulty blocks that are named, each dataset and fault.
const NAMED_MOST: usize = 1_000;
/// Larger documents are no attributes.
const ATTRIBUTES_BYTES_MOST: u64 = 16 << 20;

/// What was seen of an N5 container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct N5Container {
    /// Its datasets, sorted by path.
    pub datasets: Vec<N5Dataset>,
    /// What lies in it and is neither a block nor a document: what unfinished writes left, links that lead nowhere or out
    /// of it, blocks without a dataset, and what no reader uses.
    pub files: StoreFiles,
}

/// What was seen of one dataset of an N5 container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct N5Dataset {
    /// Its path, starting with `/`.
    pub path: String,
    /// Its dimensions, in N5's order.
    pub dimensions: Vec<u64>,
    /// The size of its blocks.
    pub block_size: Vec<u64>,
    /// Blocks that are stored.
    pub blocks: u64,
    /// Their bytes.
    pub bytes_stored: u64,
    /// Blocks that are no whole ones, sorted by index.
    pub faulty: Vec<N5Fault>,
    /// How many of these there are in all, by kind.
    pub faulty_counts: BTreeMap<ChunkFault, u64>,
    /// Blocks outside of its grid, which no reader sees.
    pub orphans: Keys,
    /// What is wrong with its attributes.
    pub defects: Vec<Defect>,
}

/// A block that is no whole one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct N5Fault {
    /// Its index.
    pub index: Vec<u64>,
    /// In which way.
    pub fault: ChunkFault,
    /// What was found and expected.
    pub why: String,
}

/// What a dataset's attributes say.
struct Attributes {
    dataset: N5Dataset,
    item_bytes: Option<u64>,
    compression: String,
    zlib: bool,
}

/// Returns the datasets of an N5 container, with the blocks that are no whole ones, and what else lies there.
///
/// One listing, in which folders of blocks are entered only if `closeness` is given; two small reads a block, of its start
/// and its end, with [`Closeness::Headers`]. Errors: those of the listing, `Cancelled`.
pub fn read_n5(store: &Store, closeness: Option<Closeness>) -> Result<N5Container> {
    let (mut documents, mut blocks) = (Vec::new(), Vec::new());
    let mut files = StoreFiles::default();
    let mut too_many = false;
    let is_index = |key: &str| key.rsplit('/').next().is_some_and(|name| name.parse::<u64>().is_ok());
    store.list_entering(&[], &|key| closeness.is_some() || !is_index(key), &mut |object| {
        let name = object.key.rsplit('/').next().unwrap_or(object.key);
        match object.kind {
            ObjectKind::DanglingLink => files.dangling.add(object.key),
            ObjectKind::OutsideLink => files.outside.add(object.key),
            ObjectKind::Special => files.special.add(object.key),
            ObjectKind::Regular if name == "attributes.json" => documents.push(object.key.to_owned()),
            ObjectKind::Regular if named(object.key) == Named::Temporary => {
                files.temporary.add(object.key);
                files.temporary_changed = files.temporary_changed.max(object.changed);
            }
            ObjectKind::Regular if blocks.len() < BLOCKS_MOST => {
                blocks.push((object.key.to_owned(), object.size));
            }
            ObjectKind::Regular => too_many = true,
        }
        ControlFlow::Continue(())
    })?;
    if too_many {
        let message = format!("more than {BLOCKS_MOST} blocks in an N5 container");
        return Err(Error::new(ErrorKind::Unsupported, message).with_hint("pass --depth metadata"));
    }
    let mut datasets: BTreeMap<String, Attributes> = BTreeMap::new();
    let mut broken = Vec::new();
    for (key, fetched) in documents.iter().zip(store.get_many(&documents, ATTRIBUTES_BYTES_MOST)) {
        let prefix = key.strip_suffix("attributes.json").unwrap_or_default().to_owned();
        let found = match fetched {
            Ok(Some(text)) => parsed(&prefix, &text),
            Ok(None) => continue,
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            // one dataset that cannot be looked at hides no other
            Err(error) => Err(("unreadable", error.one_line())),
        };
        match found {
            Ok(Some(attributes)) => _ = datasets.insert(prefix, attributes),
            Ok(None) => {}
            Err((rule, message)) => {
                let path = path_of(&prefix);
                let defects = vec![Defect::remark(&path, rule, message)];
                broken.push(N5Dataset { path, defects, ..N5Dataset::default() });
            }
        }
    }
    for (key, size) in blocks {
        let Some((prefix, index)) = dataset_of(&key, &datasets) else {
            // blocks of a dataset whose attributes are broken are told there
            let hidden =
                |path: &str| format!("/{key}").starts_with(&format!("{}/", path.trim_end_matches('/')));
            if !broken.iter().any(|dataset: &N5Dataset| hidden(&dataset.path)) {
                add_ownerless(&key, &mut files);
            }
            continue;
        };
        let verdict = match (size, closeness) {
            (0, _) => Some((ChunkFault::Empty, "0 bytes".to_owned())),
            (_, Some(Closeness::Headers)) => look(store, &key, size, &datasets[&prefix])?,
            _ => None,
        };
        let Some(attributes) = datasets.get_mut(&prefix) else { continue };
        let dataset = &mut attributes.dataset;
        dataset.blocks += 1;
        dataset.bytes_stored = dataset.bytes_stored.saturating_add(size);
        let ends = dataset.dimensions.iter().zip(&dataset.block_size);
        if ends.zip(&index).any(|((&length, &block), &at)| at >= length.div_ceil(block)) {
            dataset.orphans.add(key.strip_prefix(&prefix).unwrap_or(&key));
        }
        if let Some((fault, why)) = verdict {
            *dataset.faulty_counts.entry(fault).or_default() += 1;
            if dataset.faulty.len() < NAMED_MOST {
                dataset.faulty.push(N5Fault { index, fault, why });
            }
        }
    }
    let mut found: Vec<N5Dataset> = datasets.into_values().map(|attributes| attributes.dataset).collect();
    found.extend(broken);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.iter_mut().for_each(|dataset| dataset.faulty.sort_by(|one, other| one.index.cmp(&other.index)));
    Ok(N5Container { datasets: found, files })
}

/// Takes in a file that is no block of any dataset.
fn add_ownerless(key: &str, files: &mut StoreFiles) {
    let is_index = |part: &str| part.parse::<u64>().is_ok();
    let parts: Vec<&str> = key.split('/').collect();
    let folder = parts.len() - parts.iter().rev().take_while(|part| is_index(part)).count();
    if folder == parts.len() {
        files.foreign.add(key);
    } else {
        files.ownerless.add(key);
        *files.ownerless_folders.entry(parts[..folder].join("/")).or_default() += 1;
    }
}

fn path_of(prefix: &str) -> String {
    format!("/{}", prefix.trim_end_matches('/'))
}

/// Returns what a document says of a dataset, `None` for that of a group, or the rule and what is wrong with it.
fn parsed(prefix: &str, text: &[u8]) -> Result<Option<Attributes>, (&'static str, String)> {
    if let Some(what) = pointer(text, text.len() as u64) {
        return Err(("pointer-file", format!("attributes.json is {what}")));
    }
    let malformed = |message: String| ("malformed-metadata", message);
    let document =
        Json::parse(text).map_err(|error| malformed(format!("attributes.json is not JSON: {error}")))?;
    // groups have attributes of their own choice
    if !["dimensions", "blockSize", "dataType"].iter().all(|key| document.get(key).is_some()) {
        return Ok(None);
    }
    let found = attributes_of(prefix, &document)
        .ok_or_else(|| malformed("dimensions or blockSize is not a list of whole numbers".to_owned()))?;
    let (dimensions, blocks) = (&found.dataset.dimensions, &found.dataset.block_size);
    if dimensions.len() != blocks.len() || blocks.contains(&0) {
        return Err(malformed(format!("blocks of {blocks:?} do not divide dimensions {dimensions:?}")));
    }
    let data_type = document.get("dataType").and_then(Json::as_str).unwrap_or_default();
    if found.item_bytes.is_none() && !matches!(data_type, "string" | "object") {
        return Err(malformed(format!("dataType {data_type:?} is none of N5")));
    }
    Ok(Some(found))
}

fn attributes_of(prefix: &str, document: &Json) -> Option<Attributes> {
    let lengths = |key: &str| -> Option<Vec<u64>> {
        document.get(key)?.as_array()?.iter().map(Json::as_integer).collect()
    };
    let (dimensions, block_size) = (lengths("dimensions")?, lengths("blockSize")?);
    let data_type = document.get("dataType").and_then(Json::as_str).unwrap_or_default();
    let item_bytes = match data_type {
        "uint8" | "int8" => Some(1),
        "uint16" | "int16" => Some(2),
        "uint32" | "int32" | "float32" => Some(4),
        "uint64" | "int64" | "float64" => Some(8),
        _ => None,
    };
    let compression = document.get("compression");
    let kind =
        compression.and_then(|compression| compression.get("type")).or(document.get("compressionType"));
    let zlib = compression.and_then(|compression| compression.get("useZlib")).and_then(Json::as_bool);
    Some(Attributes {
        dataset: N5Dataset { path: path_of(prefix), dimensions, block_size, ..N5Dataset::default() },
        item_bytes,
        compression: kind.and_then(Json::as_str).unwrap_or("raw").to_owned(),
        zlib: zlib.unwrap_or(false),
    })
}

/// Returns the dataset that a key is a block of, and the block's index.
fn dataset_of(key: &str, datasets: &BTreeMap<String, Attributes>) -> Option<(String, Vec<u64>)> {
    datasets.iter().find_map(|(prefix, attributes)| {
        let index: Option<Vec<u64>> =
            key.strip_prefix(prefix.as_str())?.split('/').map(|part| part.parse().ok()).collect();
        let index = index.filter(|index| index.len() == attributes.dataset.dimensions.len())?;
        Some((prefix.clone(), index))
    })
}

/// Returns what is wrong with a block, if something is.
fn look(
    store: &Store,
    key: &str,
    size: u64,
    attributes: &Attributes,
) -> Result<Option<(ChunkFault, String)>> {
    let rank = attributes.dataset.dimensions.len();
    let header_bytes = 4 + 4 * rank as u64;
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    if store.get_range(key, 0, header_bytes + PART_BYTES, &mut head)?.is_none() {
        return Ok(None);
    }
    if let Some(what) = pointer(&head, size) {
        return Ok(Some((ChunkFault::Pointer, what)));
    }
    if let Some(what) = error_body(&head, size) {
        return Ok(Some((ChunkFault::ErrorBody, what)));
    }
    let truncated = |why: String| (ChunkFault::Truncated, why);
    if size < header_bytes {
        return Ok(Some(truncated(format!("{size} bytes, its header alone has {header_bytes}"))));
    }
    store.get_suffix(key, PART_BYTES.min(size - header_bytes), &mut tail)?;
    Ok(verdict(&head, &tail, size, attributes).map(truncated))
}

fn verdict(head: &[u8], tail: &[u8], size: u64, attributes: &Attributes) -> Option<String> {
    let rank = attributes.dataset.dimensions.len();
    let half = |at: usize| head.get(at..at + 2).map(|part| u16::from_be_bytes([part[0], part[1]]));
    let word = |at: usize| {
        let part = head.get(at..at + 4)?;
        Some(u64::from(u32::from_be_bytes([part[0], part[1], part[2], part[3]])))
    };
    let (mode, dimensions) = (half(0)?, half(2)?);
    if mode > 2 {
        return Some(format!("its header says mode {mode}, and there are three"));
    }
    // a block of objects has no shape
    if mode != 0 {
        return None;
    }
    if usize::from(dimensions) != rank {
        return Some(format!("its header says {dimensions} dimensions, the dataset has {rank}"));
    }
    let lengths: Vec<u64> = (0..rank).map_while(|dimension| word(4 + 4 * dimension)).collect();
    let fits = lengths.len() == rank
        && lengths
            .iter()
            .zip(&attributes.dataset.block_size)
            .all(|(length, most)| (1..=*most).contains(length));
    if !fits {
        return Some(format!(
            "its header says {lengths:?} elements, blocks have {:?}",
            attributes.dataset.block_size
        ));
    }
    let decoded = product(&lengths)?.checked_mul(attributes.item_bytes?)?;
    let start = 4 + 4 * rank;
    let body = head.get(start..)?;
    match attributes.compression.as_str() {
        "raw" => {
            let found = size - start as u64;
            (found != decoded).then(|| format!("{found} bytes of elements, expected {decoded}"))
        }
        "gzip" if !attributes.zlib => {
            if !body.starts_with(b"\x1f\x8b") {
                return Some("no gzip stream begins behind its header".to_owned());
            }
            let last = tail.last_chunk::<4>().map(|last| u64::from(u32::from_le_bytes(*last)));
            (last != Some(decoded & 0xffff_ffff)).then(|| {
                format!("its gzip stream does not end in its length of {decoded} bytes: the end is missing")
            })
        }
        "bzip2" if !body.starts_with(b"BZh") => Some("no bzip2 stream begins behind its header".to_owned()),
        "bzip2" => (!ends_bzip2(tail))
            .then(|| "its bzip2 stream does not end in its mark: the end is missing".to_owned()),
        "xz" if !body.starts_with(b"\xfd7zXZ\0") => Some("no xz stream begins behind its header".to_owned()),
        "xz" => (!tail.ends_with(b"YZ"))
            .then(|| "its xz stream does not end in its footer: the end is missing".to_owned()),
        "blosc" => match blosc::Header::parse(body) {
            Ok(header) if header.cbytes > size - start as u64 => Some(format!(
                "its blosc header says {} bytes, {} are there",
                header.cbytes,
                size - start as u64
            )),
            Ok(header) if header.nbytes != decoded => {
                Some(format!("its blosc header says {} decoded bytes, expected {decoded}", header.nbytes))
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        },
        _ => None,
    }
}

/// Returns whether bytes end as a bzip2 stream does: in a mark of 48 bits and a checksum of 32, filled up to whole bytes.
fn ends_bzip2(tail: &[u8]) -> bool {
    const MARK: u128 = 0x1772_4538_5090;
    let last = tail.iter().rev().take(11).rev().fold(0u128, |bits, &byte| bits << 8 | u128::from(byte));
    (0..8).any(|spare| last >> (spare + 32) & 0xffff_ffff_ffff == MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::StoreUrl;
    use crate::store::StoreOptions;

    fn datasets(attributes: &str, blocks: &[(&str, Vec<u8>)]) -> Vec<N5Dataset> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("attributes.json"), r#"{"n5":"2.0.0"}"#).unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/attributes.json"), attributes).unwrap();
        for (name, bytes) in blocks {
            let path = folder.path().join("a").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        read(folder.path()).datasets
    }

    fn read(folder: &std::path::Path) -> N5Container {
        let url = StoreUrl::Local(folder.to_owned());
        read_n5(&Store::open(&url, &StoreOptions::default()).unwrap(), Some(Closeness::Headers)).unwrap()
    }

    /// A block of `shape`, with these bytes behind its header.
    fn block(shape: &[u32], body: &[u8]) -> Vec<u8> {
        let mut block = vec![0, 0, 0, u8::try_from(shape.len()).unwrap()];
        shape.iter().for_each(|length| block.extend(length.to_be_bytes()));
        block.extend(body);
        block
    }

    #[test]
    fn blocks_are_compared_with_what_their_dataset_promises() {
        let raw =
            r#"{"dimensions":[4,3],"blockSize":[2,3],"dataType":"uint16","compression":{"type":"raw"}}"#;
        let found = datasets(
            raw,
            &[
                ("0/0", block(&[2, 3], &[0; 12])),
                ("1/0", block(&[2, 3], &[0; 11])),
                ("2/0", block(&[2, 3, 1], &[0; 12])),
                ("3/0", vec![0; 3]),
            ],
        );
        assert_eq!((found.len(), found[0].path.as_str(), found[0].blocks), (1, "/a", 4));
        let indices: Vec<_> = found[0].faulty.iter().map(|fault| fault.index[0]).collect();
        assert_eq!(indices, [1, 2, 3]);
    }

    #[test]
    fn what_is_no_block_of_a_dataset_is_told_by_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let write = |key: &str, bytes: &[u8]| {
            let path = folder.path().join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        let raw = br#"{"dimensions":[4],"blockSize":[2],"dataType":"uint8","compression":{"type":"raw"}}"#;
        write("a/attributes.json", raw);
        write("a/0", &block(&[2], &[0; 2]));
        write("a/2", &block(&[2], &[0; 2]));
        write("a/1.partial", b"x");
        write("a/notes.txt", b"x");
        write("b/c/0/1", b"x");
        std::os::unix::fs::symlink("nowhere", folder.path().join("a/1")).unwrap();
        let found = read(folder.path());
        assert_eq!(found.datasets[0].orphans.examples, ["2"]);
        assert_eq!(found.files.temporary.examples, ["a/1.partial"]);
        assert_eq!(found.files.foreign.examples, ["a/notes.txt"]);
        assert_eq!(found.files.dangling.examples, ["a/1"]);
        assert_eq!(found.files.ownerless_folders, [("b/c".to_owned(), 1)].into());
    }

    #[test]
    fn a_gzip_stream_must_end_in_its_length() {
        let gzip = r#"{"dimensions":[4],"blockSize":[4],"dataType":"uint8","compression":{"type":"gzip"}}"#;
        let whole = [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &[1; 20], &4u32.to_le_bytes()].concat();
        let found = datasets(gzip, &[("0", block(&[4], &whole)), ("1", block(&[4], &whole[..30]))]);
        assert_eq!(found[0].faulty.iter().map(|fault| fault.index[0]).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn bzip2_and_xz_streams_must_end_in_their_marks() {
        // four bytes 1, 2, 3, 4, as python's bz2 and lzma write them
        let streams: [(&str, &[u8]); 2] = [
            ("bzip2", b"\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x86\xc8\xc8\x32\x00\x00\x00\x40\x00\x3c\x00\x20\x00\x21\x9a\x68\x33\x4d\x13\x3c\x5d\xc9\x14\xe1\x42\x42\x1b\x23\x20\xc8"),
            ("xz", b"\xfd\x37\x7a\x58\x5a\x00\x00\x01\x69\x22\xde\x36\x02\x00\x21\x01\x16\x00\x00\x00\x74\x2f\xe5\xa3\x01\x00\x03\x01\x02\x03\x04\x00\xcd\xfb\x3c\xb6\x00\x01\x18\x04\x6b\xe9\xf0\xa5\x90\x42\x99\x0d\x01\x00\x00\x00\x00\x01\x59\x5a"),
        ];
        for (kind, whole) in streams {
            let attributes = format!(
                r#"{{"dimensions":[8],"blockSize":[4],"dataType":"uint8","compression":{{"type":"{kind}"}}}}"#
            );
            let cut = &whole[..whole.len() - 3];
            let found = datasets(&attributes, &[("0", block(&[4], whole)), ("1", block(&[4], cut))]);
            assert_eq!(found[0].faulty.iter().map(|fault| fault.index[0]).collect::<Vec<_>>(), [1], "{kind}");
        }
    }

    #[test]
    fn attributes_that_nobody_reads_and_blocks_that_are_none_are_told_apart() {
        let of = |data_type: &str, block: &str| {
            format!(
                r#"{{"dimensions":[4],"blockSize":[{block}],"dataType":"{data_type}","compression":{{"type":"raw"}}}}"#
            )
        };
        for attributes in [of("uint99", "4"), of("uint8", "0"), of("uint8", "-1"), "{".to_owned()] {
            let found = datasets(&attributes, &[]);
            let rules: Vec<_> = found[0].defects.iter().map(|defect| defect.rule).collect();
            assert_eq!((found[0].path.as_str(), rules), ("/a", vec!["malformed-metadata"]), "{attributes}");
        }
        let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n".to_vec();
        let found = datasets(&of("uint8", "2"), &[("0", Vec::new()), ("1", lfs)]);
        let faults: Vec<_> = found[0].faulty.iter().map(|faulty| faulty.fault).collect();
        assert_eq!(faults, [ChunkFault::Empty, ChunkFault::Pointer]);
    }
}
