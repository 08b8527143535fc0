//! What the first (or last) bytes of a stored chunk say against what its array's metadata promises.

use super::faults::ChunkFault;
use crate::codec::{Chain, ShardCodec, ZstdWalk, blosc, walk_zstd};
use crate::hierarchy::ArrayNode;
use crate::metadata::{ChecksumPlace, CodecSpec};
use crate::store::Glance;

/// Bytes read of a chunk where a header says it all, and an error body must be recognised.
const SHORT_HEAD: u64 = 256;
/// Bytes read where blocks are followed, or the end is looked at.
const LONG_HEAD: u64 = 4096;
/// Larger objects are no error bodies.
const ERROR_BODY_MOST: u64 = 64 << 10;
/// Larger files are no pointers.
const POINTER_MOST: u64 = 1 << 10;

/// What is wrong with one chunk, and why.
pub(super) type Fault = (ChunkFault, String);

/// What the stored chunks of one array look like by its metadata.
pub(super) struct Expected {
    outermost: Option<CodecSpec>,
    /// Bytes that the outermost codec decodes to, where they are always the same.
    frame_bytes: Option<u64>,
    /// Bytes of a stored chunk, where they are always the same.
    pub(super) stored_bytes: Option<u64>,
    checksum_bytes: u64,
    chain: Option<Chain>,
}

/// Which bytes of a chunk are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// So many from the start.
    Head(u64),
    /// So many from the end.
    Tail(u64),
}

impl Expected {
    pub(super) fn of(array: &ArrayNode) -> Self {
        let metadata = &array.metadata;
        let regular = metadata.grid.regular_shape().is_some();
        let chain = Chain::compile(metadata, &metadata.grid.largest_chunk_shape()).ok();
        let (outermost, frame, checksum) = chain.as_ref().map_or((None, None, 0), |chain| chain.outermost());
        let outermost = match outermost {
            // what lies behind a checksum in front is not at the start
            Some(CodecSpec::Checksum(_, ChecksumPlace::Start)) => {
                Some(CodecSpec::Unknown("checksum".to_owned()))
            }
            other => other.cloned(),
        };
        let fixed = chain.as_ref().and_then(Chain::encoded_bytes).filter(|_| regular);
        Self {
            frame_bytes: frame
                .filter(|_| regular && !matches!(outermost, Some(CodecSpec::Filter(_))))
                .map(|bytes| bytes as u64),
            stored_bytes: fixed.map(|bytes| bytes as u64),
            outermost,
            checksum_bytes: checksum as u64,
            chain,
        }
    }

    /// Returns the shard codec, if chunks are shards that lie in their object as they are.
    pub(super) fn shard(&self) -> Option<&ShardCodec> {
        self.chain.as_ref().and_then(Chain::shard)
    }

    /// Returns what is read of each chunk.
    pub(super) fn window(&self) -> Window {
        if let Some(shard) = self.shard() {
            let index = shard.index_bytes() as u64;
            return if shard.index_at_start() {
                Window::Head(index.max(SHORT_HEAD))
            } else {
                Window::Tail(index.max(SHORT_HEAD))
            };
        }
        match self.outermost {
            Some(CodecSpec::Gzip(_)) => Window::Tail(LONG_HEAD),
            Some(CodecSpec::Zstd { .. }) => Window::Head(LONG_HEAD),
            _ => Window::Head(SHORT_HEAD),
        }
    }

    /// Returns what is read of most chunks once it is known that they are there: nothing where their length says it all.
    pub(super) fn glance(&self) -> Glance {
        match self.window() {
            _ if self.stored_bytes.is_some() => Glance::Head(0),
            Window::Head(bytes) => Glance::Head(bytes),
            Window::Tail(bytes) => Glance::Tail(bytes),
        }
    }

    /// Returns what is wrong with a chunk of `size` bytes, of which `bytes` are those that [`Self::window`] asked for.
    pub(super) fn judge(&self, bytes: &[u8], size: u64) -> Option<Fault> {
        if let Some(pointer) = pointer(bytes, size) {
            return Some((ChunkFault::Pointer, pointer));
        }
        let found = self.judge_frame(bytes, size);
        let consistent = match &found {
            None => self.says_something() || self.stored_bytes == Some(size),
            // what is longer than any chunk of the array is none
            Some((fault, _)) => *fault == ChunkFault::Trailing && self.stored_bytes.is_none(),
        };
        match error_body(bytes, size) {
            Some(body) if !consistent => Some((ChunkFault::ErrorBody, body)),
            _ => found,
        }
    }

    /// Returns whether a sound head rules out that these are other bytes.
    fn says_something(&self) -> bool {
        matches!(
            self.outermost,
            Some(
                CodecSpec::Blosc(_)
                    | CodecSpec::Zstd { .. }
                    | CodecSpec::Gzip(_)
                    | CodecSpec::Zlib(_)
                    | CodecSpec::Bz2(_)
            )
        )
    }

    fn judge_frame(&self, bytes: &[u8], size: u64) -> Option<Fault> {
        if let Some(expected) = self.stored_bytes {
            return wrong_length(size, expected);
        }
        let Some(frame) = size.checked_sub(self.checksum_bytes) else {
            return Some((
                ChunkFault::Truncated,
                format!("{size} bytes, its checksum alone has {}", self.checksum_bytes),
            ));
        };
        match self.outermost.as_ref()? {
            CodecSpec::Blosc(_) => self.judge_blosc(bytes, frame),
            CodecSpec::Zstd { .. } => self.judge_zstd(bytes, frame),
            CodecSpec::Gzip(_) => self.judge_gzip(bytes, size),
            CodecSpec::Zlib(_) => judge_zlib(bytes),
            CodecSpec::Bz2(_) => begins_with(bytes, b"BZh", "bz2"),
            CodecSpec::Lzma(spec) if spec.format == 1 => begins_with(bytes, b"\xfd7zXZ\0", "xz"),
            CodecSpec::Lz4 => self.judge_lz4(bytes),
            _ => None,
        }
    }

    fn judge_blosc(&self, bytes: &[u8], frame: u64) -> Option<Fault> {
        if bytes.len() < 16 {
            return Some((
                ChunkFault::Truncated,
                format!("{frame} bytes, the header of a blosc frame alone has 16"),
            ));
        }
        let header = match blosc::Header::parse(bytes) {
            Ok(header) => header,
            Err(error) => return Some((ChunkFault::NoFrame, error.to_string())),
        };
        if header.cbytes > frame {
            let why = format!("its blosc header says {} bytes, {frame} are there", header.cbytes);
            return Some((ChunkFault::Truncated, why));
        }
        self.wrong_size(header.nbytes, "blosc header").or_else(|| trailing(header.cbytes, frame))
    }

    fn judge_zstd(&self, bytes: &[u8], frame: u64) -> Option<Fault> {
        let seen = bytes.len().min(crate::units::saturating_usize(frame));
        if seen < 5 {
            return Some((ChunkFault::Truncated, format!("{frame} bytes are no zstd frame")));
        }
        let walk = walk_zstd(&bytes[..seen], frame);
        if let ZstdWalk::Broken(why) = walk {
            return Some((ChunkFault::NoFrame, why.to_owned()));
        }
        if walk == ZstdWalk::Cut {
            return Some((ChunkFault::Truncated, format!("its zstd frame goes on behind its {frame} bytes")));
        }
        let named = zstd_safe::get_frame_content_size(&bytes[..seen]).ok().flatten();
        let wrong = named
            .filter(|_| !starts_another_frame(bytes))
            .and_then(|named| self.wrong_size(named, "zstd frame"));
        wrong.or(match walk {
            ZstdWalk::Trailing { bytes } => trailing(frame - bytes, frame),
            _ => None,
        })
    }

    /// Source: RFC 1952; the last four bytes are the decoded length, modulo 2^32.
    fn judge_gzip(&self, tail: &[u8], size: u64) -> Option<Fault> {
        if tail.len() as u64 == size {
            if !tail.starts_with(b"\x1f\x8b") {
                return Some((ChunkFault::NoFrame, "no gzip stream begins like this".to_owned()));
            }
            if size < 18 {
                return Some((ChunkFault::Truncated, format!("{size} bytes, an empty gzip stream has 18")));
            }
            // a field for sizes of blocks: several members, of which the last one may be empty (BGZF)
            if tail[3] & 4 != 0 {
                return None;
            }
        }
        let expected = self.frame_bytes?;
        let end = tail.len().checked_sub(crate::units::saturating_usize(self.checksum_bytes))?;
        let last = tail.get(end.checked_sub(4)?..end)?;
        let length = u64::from(u32::from_le_bytes([last[0], last[1], last[2], last[3]]));
        if follows_another_member(&tail[..end], length, expected) {
            return None;
        }
        (length != expected & 0xffff_ffff).then(|| {
            let why =
                format!("its last bytes say {length} decoded bytes, expected {expected}: the end is missing");
            (ChunkFault::Truncated, why)
        })
    }

    /// Source: numcodecs' `lz4`: the decoded length in four bytes, then one block.
    fn judge_lz4(&self, bytes: &[u8]) -> Option<Fault> {
        let Some(prefix) = bytes.first_chunk::<4>() else {
            return Some((
                ChunkFault::Truncated,
                format!("{} bytes, the length in front of lz4 alone has 4", bytes.len()),
            ));
        };
        self.wrong_size(u64::from(u32::from_le_bytes(*prefix)), "length in front of lz4")
    }

    fn wrong_size(&self, found: u64, what: &str) -> Option<Fault> {
        let expected = self.frame_bytes.filter(|&expected| expected != found)?;
        Some((ChunkFault::WrongSize, format!("its {what} says {found} decoded bytes, expected {expected}")))
    }
}

/// Returns whether the last of several gzip members may begin inside `tail`: where one begins, another one ends, in a
/// length that leaves room for that of the last. Source: RFC 1952, section 2.2.
fn follows_another_member(tail: &[u8], length: u64, expected: u64) -> bool {
    // magic bytes, deflate, flags of which the upper three are reserved
    tail.windows(8).any(|bytes| {
        let before = u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        bytes[4..7] == *b"\x1f\x8b\x08" && bytes[7] < 0x20 && before.saturating_add(length) <= expected
    })
}

/// Returns whether a zstd frame is skippable, so that it says nothing of the content.
fn starts_another_frame(bytes: &[u8]) -> bool {
    bytes.first_chunk::<4>().is_some_and(|magic| u32::from_le_bytes(*magic) & 0xffff_fff0 == 0x184d_2a50)
}

/// Says that a shard has fewer bytes than its index.
pub(super) fn short_shard(size: u64, index: u64) -> String {
    format!("a shard of {size} bytes, its index alone has {index}")
}

/// Compares the length of a chunk whose length is always the same.
pub(super) fn wrong_length(size: u64, expected: u64) -> Option<Fault> {
    if size < expected {
        return Some((ChunkFault::Truncated, format!("{size} bytes, expected {expected}")));
    }
    trailing(expected, size)
}

fn trailing(expected: u64, found: u64) -> Option<Fault> {
    (found > expected).then(|| (ChunkFault::Trailing, format!("{found} bytes, of which {expected} are used")))
}

/// Source: RFC 1950, section 2.2.
fn judge_zlib(bytes: &[u8]) -> Option<Fault> {
    let sound = match bytes {
        [method, flags, ..] => {
            method & 15 == 8 && (u16::from(*method) << 8 | u16::from(*flags)).is_multiple_of(31)
        }
        _ => false,
    };
    (!sound).then(|| (ChunkFault::NoFrame, "no zlib stream begins like this".to_owned()))
}

fn begins_with(bytes: &[u8], magic: &[u8], codec: &str) -> Option<Fault> {
    (!bytes.starts_with(magic)).then(|| (ChunkFault::NoFrame, format!("no {codec} stream begins like this")))
}

/// Returns what a pointer file points to, if these bytes are one.
pub(super) fn pointer(bytes: &[u8], size: u64) -> Option<String> {
    if size > POINTER_MOST {
        return None;
    }
    let line = |prefix: &[u8]| {
        let rest = bytes.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(prefix))?;
        Some(String::from_utf8_lossy(rest).trim().to_owned())
    };
    if bytes.starts_with(b"version https://git-lfs.github.com/spec/")
        || bytes.starts_with(b"version https://hawser.github.com/spec/")
    {
        let of = line(b"size ").map_or_else(String::new, |size| format!(" to {size} bytes"));
        return Some(format!("a git-lfs pointer{of}"));
    }
    if bytes.starts_with(b"/annex/objects/") {
        return Some("a git-annex pointer".to_owned());
    }
    if is_annex_link(bytes) {
        return Some("the text of a git-annex link, which was checked out as a file".to_owned());
    }
    (bytes.starts_with(b"outs:\n") && line(b"- md5:").is_some()).then(|| "a DVC sidecar".to_owned())
}

/// Returns whether these bytes are the target of a git-annex link, as git writes it where links are off
/// (`core.symlinks=false`): `../../.git/annex/objects/..`.
fn is_annex_link(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let text = text.trim_end().trim_start_matches("../").trim_start_matches("./");
    !text.contains('\n') && text.starts_with(".git/annex/objects/")
}

/// Returns the first words of a body that a server sends instead of data, if these bytes are one.
pub(super) fn error_body(bytes: &[u8], size: u64) -> Option<String> {
    const STARTS: [&str; 5] = ["<?xml", "<error", "<!doctype", "<html", "http/1."];
    // the first member of an object, however it is laid out
    const MEMBERS: [&str; 4] = ["\"error", "\"code", "\"message", "\"fault"];
    if size > ERROR_BODY_MOST {
        return None;
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let begins = |text: &[u8], start: &str| {
        text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start.as_bytes()))
    };
    let member = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    let object = member.is_some_and(|member| MEMBERS.iter().any(|start| begins(member, start)));
    if !object && !STARTS.iter().any(|start| begins(text, start)) {
        return None;
    }
    let text = String::from_utf8_lossy(text);
    let code =
        text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map(|(code, _)| code);
    let words = code.map_or_else(|| text.chars().take(60).collect::<String>(), str::to_owned);
    Some(format!("the body of a server's answer: {}", words.split_whitespace().collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{ArrayMetadata, Json};

    /// What chunks of 1,000 float32 look like under a v2 compressor.
    fn expected(compressor: &str) -> Expected {
        let text = format!(
            r#"{{"zarr_format":2,"shape":[8000],"chunks":[1000],"dtype":"<f4","fill_value":0,"filters":null,"order":"C","compressor":{compressor}}}"#
        );
        let Json::Object(document) = Json::parse(text.as_bytes()).unwrap() else { unreachable!("an object") };
        let metadata =
            ArrayMetadata::parse_v2("/a", document, crate::metadata::Object::default(), &mut Vec::new())
                .unwrap();
        Expected::of(&ArrayNode { path: "/a".into(), metadata })
    }

    fn fault_of(expected: &Expected, bytes: &[u8]) -> Option<ChunkFault> {
        let window = match expected.window() {
            Window::Head(most) => &bytes[..bytes.len().min(usize::try_from(most).unwrap())],
            Window::Tail(most) => &bytes[bytes.len().saturating_sub(usize::try_from(most).unwrap())..],
        };
        expected.judge(window, bytes.len() as u64).map(|(fault, _)| fault)
    }

    #[test]
    fn raw_chunks_have_one_length() {
        let raw = expected("null");
        assert_eq!(fault_of(&raw, &[0; 4000]), None);
        assert_eq!(fault_of(&raw, &[0; 3999]), Some(ChunkFault::Truncated));
        assert_eq!(fault_of(&raw, &[0; 4001]), Some(ChunkFault::Trailing));
        let mut xml = b"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>".to_vec();
        assert_eq!(fault_of(&raw, &xml), Some(ChunkFault::ErrorBody));
        xml.resize(4001, b' ');
        assert_eq!(fault_of(&raw, &xml), Some(ChunkFault::ErrorBody), "longer than a chunk");
        xml.resize(4000, b' ');
        assert_eq!(fault_of(&raw, &xml), None, "of the right length it may be data");
    }

    #[test]
    fn bodies_are_known_however_they_are_laid_out() {
        for body in ["{\n  \"error\": {\n    \"code\": 403", "{ \"message\": \"gone\"}", "\n<HTML>"] {
            assert!(error_body(body.as_bytes(), body.len() as u64).is_some(), "{body}");
        }
        for data in ["{\n  \"zarr_format\": 3}", "{", "error"] {
            assert_eq!(error_body(data.as_bytes(), data.len() as u64), None, "{data}");
        }
    }

    #[test]
    fn links_of_git_annex_that_became_files_are_pointers() {
        let zlib = expected(r#"{"id":"zlib","level":1}"#);
        let link = b"../../.git/annex/objects/5g/0q/SHA256E-s100--ab/SHA256E-s100--ab";
        assert_eq!(fault_of(&zlib, link), Some(ChunkFault::Pointer));
        assert_eq!(fault_of(&zlib, b"x/.git/annex/objects/5g"), Some(ChunkFault::NoFrame));
    }

    #[test]
    fn frames_say_their_lengths() {
        let blosc = expected(r#"{"id":"blosc","cname":"lz4","clevel":5,"shuffle":1}"#);
        let frame = |nbytes: u32, cbytes: u32| {
            let mut frame = vec![2, 1, 0x21, 4];
            frame.extend([nbytes, 4000, cbytes].map(u32::to_le_bytes).concat());
            frame.resize(100, 7);
            frame
        };
        assert_eq!(fault_of(&blosc, &frame(4000, 100)), None);
        assert_eq!(fault_of(&blosc, &frame(4000, 101)), Some(ChunkFault::Truncated));
        assert_eq!(fault_of(&blosc, &frame(4000, 99)), Some(ChunkFault::Trailing));
        assert_eq!(fault_of(&blosc, &frame(8000, 100)), Some(ChunkFault::WrongSize));
        assert_eq!(fault_of(&blosc, &[0; 100]), Some(ChunkFault::NoFrame));
        assert_eq!(
            fault_of(&blosc, b"<Error><Code>AccessDenied</Code></Error>"),
            Some(ChunkFault::ErrorBody)
        );
        let lz4 = expected(r#"{"id":"lz4","acceleration":1}"#);
        assert_eq!(fault_of(&lz4, &[0xa0, 0x0f, 0, 0, 9]), None);
        assert_eq!(fault_of(&lz4, &[0xa1, 0x0f, 0, 0, 9]), Some(ChunkFault::WrongSize));
    }

    #[test]
    fn streams_that_end_early_are_told_by_their_end() {
        let gzip = expected(r#"{"id":"gzip","level":1}"#);
        let mut whole = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        whole.extend([1; 9_000]);
        whole.extend(4000u32.to_le_bytes());
        assert_eq!(fault_of(&gzip, &whole), None);
        assert_eq!(fault_of(&gzip, &whole[..8_000]), Some(ChunkFault::Truncated));
        let member = |length: u32| {
            let mut member = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 1, 1, 1, 9, 9, 9, 9];
            member.extend(length.to_le_bytes());
            member
        };
        assert_eq!(fault_of(&gzip, &[member(1500), member(2500)].concat()), None);
        assert_eq!(fault_of(&gzip, &[member(1500), member(2501)].concat()), Some(ChunkFault::Truncated));
        assert_eq!(
            fault_of(&gzip, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"),
            Some(ChunkFault::Pointer)
        );
        let zstd = expected(r#"{"id":"zstd","level":1}"#);
        let mut frame = vec![0; 5_000];
        let length = zstd_safe::compress(frame.as_mut_slice(), &[3; 4_000], 1).unwrap();
        frame.truncate(length);
        assert_eq!(fault_of(&zstd, &frame), None);
        assert_eq!(fault_of(&zstd, &frame[..length - 3]), Some(ChunkFault::Truncated));
        let zlib = expected(r#"{"id":"zlib","level":1}"#);
        assert_eq!(fault_of(&zlib, &[0x78, 0x9c, 1, 2]), None);
        assert_eq!(fault_of(&zlib, &[0x78, 0x9d, 1, 2]), Some(ChunkFault::NoFrame));
    }
}
