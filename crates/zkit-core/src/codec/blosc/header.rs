//! The first 16 bytes of a frame.

use std::ops::Range;

use super::super::CodecError;

/// The name of this codec in errors.
pub(super) const CODEC: &str = "blosc";

/// Bytes of a frame's header.
pub(in crate::codec) const HEADER_BYTES: usize = 16;

/// The one version of the frame format that c-blosc 1.x has written since 1.0.
pub(super) const FORMAT_VERSION: u8 = 2;

/// The version of every inner format, which none of them has ever changed.
pub(super) const INNER_VERSION: u8 = 1;

/// Blocks are split into at most this many streams.
const MAX_SPLITS: usize = 16;

/// Buffers and split streams below this size are not worth compressing.
pub(super) const MIN_BUFFER_BYTES: usize = 128;

pub(super) const FLAG_SHUFFLE: u8 = 0x01;
pub(super) const FLAG_MEMCPYED: u8 = 0x02;
pub(super) const FLAG_BITSHUFFLE: u8 = 0x04;
const FLAG_RESERVED: u8 = 0x08;
pub(super) const FLAG_UNSPLIT: u8 = 0x10;
pub(super) const INNER_CODEC_SHIFT: u8 = 5;

/// The compressor of the streams in a frame. `lz4hc` writes the `lz4` format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InnerCodec {
    /// `blosclz`, c-blosc's own relative of FastLZ; read only.
    BloscLz,
    /// `lz4` and `lz4hc`.
    Lz4,
    /// `snappy`; read only.
    Snappy,
    /// `zlib`.
    Zlib,
    /// `zstd`.
    Zstd,
}

impl InnerCodec {
    /// Returns the name that Zarr metadata uses (`cname`).
    pub fn name(self) -> &'static str {
        match self {
            Self::BloscLz => "blosclz",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    fn from_format(format: u8) -> Option<Self> {
        [Self::BloscLz, Self::Lz4, Self::Snappy, Self::Zlib, Self::Zstd].get(usize::from(format)).copied()
    }

    pub(super) fn format(self) -> u8 {
        match self {
            Self::BloscLz => 0,
            Self::Lz4 => 1,
            Self::Snappy => 2,
            Self::Zlib => 3,
            Self::Zstd => 4,
        }
    }
}

/// The filter applied to each block before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shuffle {
    /// None.
    None,
    /// Byte planes.
    Byte,
    /// Bit planes.
    Bit,
}

/// What a frame says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Version of the frame format.
    pub version: u8,
    /// Compressor of the streams.
    pub codec: InnerCodec,
    /// Filter of the blocks.
    pub shuffle: Shuffle,
    /// Bytes of one element, as the filter saw it.
    pub type_size: u8,
    /// Bytes that the frame decodes to.
    pub nbytes: u64,
    /// Decoded bytes of each block but the last.
    pub block_size: u64,
    /// Bytes of the whole frame, header included.
    pub cbytes: u64,
    /// Whether the bytes follow the header as they are.
    pub memcpyed: bool,
    /// Whether blocks are split into one stream per byte of the element, where they are large enough.
    pub split: bool,
}

impl Header {
    /// Returns the header at the start of `frame`, of which the first 16 bytes are enough.
    ///
    /// # Errors
    ///
    /// `Corrupt` where no frame starts like this, `Unsupported` for frames of c-blosc2 and of versions before 1.0.
    pub fn parse(frame: &[u8]) -> Result<Self, CodecError> {
        let Some((bytes, _)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            return Err(corrupt(format!("frame of {} bytes, the header alone has 16", frame.len())));
        };
        let [version, inner_version, flags, type_size, sizes @ ..] = *bytes;
        if version != FORMAT_VERSION {
            return Err(unsupported(format!("frame format version {version}, only version 2 is Blosc 1")));
        }
        if flags & FLAG_RESERVED != 0
            || flags & (FLAG_SHUFFLE | FLAG_BITSHUFFLE) == FLAG_SHUFFLE | FLAG_BITSHUFFLE
        {
            return Err(unsupported(format!("flags {flags:#04x} of an extended header")));
        }
        let memcpyed = flags & FLAG_MEMCPYED != 0;
        let Some(codec) = InnerCodec::from_format(flags >> INNER_CODEC_SHIFT) else {
            return Err(unsupported(format!("inner codec {}", flags >> INNER_CODEC_SHIFT)));
        };
        if !memcpyed && inner_version != INNER_VERSION {
            return Err(unsupported(format!("version {inner_version} of inner codec {}", codec.name())));
        }
        let header = Self {
            version,
            codec,
            shuffle: match flags & (FLAG_SHUFFLE | FLAG_BITSHUFFLE) {
                FLAG_SHUFFLE => Shuffle::Byte,
                FLAG_BITSHUFFLE => Shuffle::Bit,
                _ => Shuffle::None,
            },
            type_size,
            nbytes: size_at(&sizes, 0, "decoded size")?,
            block_size: size_at(&sizes, 4, "block size")?,
            cbytes: size_at(&sizes, 8, "encoded size")?,
            memcpyed,
            split: flags & FLAG_UNSPLIT == 0,
        };
        header.check()
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> usize {
        match self.nbytes {
            0 => 0,
            nbytes => to_usize(nbytes.div_ceil(self.block_size)),
        }
    }

    /// Returns the decoded bytes that block `index` holds.
    pub fn block_range(&self, index: usize) -> Range<usize> {
        let (nbytes, block_size) = (to_usize(self.nbytes), to_usize(self.block_size));
        let start = index.saturating_mul(block_size).min(nbytes);
        start..start.saturating_add(block_size).min(nbytes)
    }

    /// Returns the bytes at the front of a frame that say where each block starts.
    pub fn head_bytes(&self) -> u64 {
        let table = if self.memcpyed { 0 } else { 4 * self.block_count() as u64 };
        HEADER_BYTES as u64 + table
    }

    /// Returns which bytes of a frame hold the decoded bytes `range`; `head` is its first [`Self::head_bytes`].
    pub fn span(&self, head: &[u8], range: Range<usize>) -> Result<Range<u64>, CodecError> {
        if range.is_empty() {
            return Ok(0..0);
        }
        if self.memcpyed {
            return Ok((HEADER_BYTES + range.start) as u64..(HEADER_BYTES + range.end) as u64);
        }
        let outside = || corrupt(format!("bytes {range:?} of {}", self.nbytes));
        let block_size = to_usize(self.block_size);
        let wanted = range.start / block_size..=(range.end - 1) / block_size;
        if *wanted.end() >= self.block_count() {
            return Err(outside());
        }
        let starts: Option<Vec<u64>> =
            (0..self.block_count()).map(|index| block_start(head, index).map(|start| start as u64)).collect();
        let starts = starts.ok_or_else(|| corrupt("a block without start"))?;
        let (mut first, mut last) = (u64::MAX, 0);
        for start in &starts[wanted] {
            (first, last) = (first.min(*start), last.max(*start));
        }
        // threads may have written the blocks in any order: the last wanted one ends where the next one starts
        let end = starts.iter().copied().filter(|&start| start > last).min().unwrap_or(self.cbytes);
        if first < self.head_bytes() || end > self.cbytes {
            return Err(corrupt(format!("blocks at {first} to {end} of a frame of {}", self.cbytes)));
        }
        Ok(first..end)
    }

    /// Returns the number of streams of a block of `bytes` decoded bytes.
    pub(super) fn streams(&self, bytes: usize) -> usize {
        let type_size = usize::from(self.type_size);
        let whole = bytes as u64 == self.block_size;
        if self.split && whole && can_split(type_size, bytes) { type_size } else { 1 }
    }

    fn check(self) -> Result<Self, CodecError> {
        if self.cbytes < HEADER_BYTES as u64 {
            return Err(corrupt(format!("encoded size {}, the header alone has 16", self.cbytes)));
        }
        if self.nbytes == 0 {
            return Ok(self);
        }
        if self.block_size == 0 {
            return Err(corrupt("block size 0"));
        }
        if self.type_size == 0 {
            return Err(corrupt("type size 0"));
        }
        if self.memcpyed && self.cbytes != self.nbytes + HEADER_BYTES as u64 {
            return Err(corrupt(format!("{} bytes stored in a frame of {}", self.nbytes, self.cbytes)));
        }
        if !self.memcpyed && (self.block_count() as u64) > (self.cbytes - HEADER_BYTES as u64) / 4 {
            return Err(corrupt(format!(
                "{} blocks in a frame of {} bytes",
                self.block_count(),
                self.cbytes
            )));
        }
        Ok(self)
    }
}

/// Returns whether a block of `block_bytes` is large enough to be split by the bytes of its elements.
pub(super) fn can_split(type_size: usize, block_bytes: usize) -> bool {
    type_size <= MAX_SPLITS && block_bytes / type_size >= MIN_BUFFER_BYTES
}

/// Returns a `Corrupt` error of this codec.
pub(super) fn corrupt(what: impl Into<String>) -> CodecError {
    CodecError::corrupt(CODEC, what)
}

/// Returns an `Unsupported` error of this codec.
pub(super) fn unsupported(what: impl Into<String>) -> CodecError {
    CodecError::Unsupported { codec: CODEC, what: what.into() }
}

/// Returns where block `index` starts, from the table behind the header.
pub(super) fn block_start(head: &[u8], index: usize) -> Option<usize> {
    size_i32(head, index.checked_mul(4)?.checked_add(HEADER_BYTES)?)
}

/// Returns the little-endian `i32` at `at`, or `None` where there is none or it is negative.
pub(super) fn size_i32(bytes: &[u8], at: usize) -> Option<usize> {
    let (size, _) = bytes.get(at..)?.split_first_chunk::<4>()?;
    usize::try_from(i32::from_le_bytes(*size)).ok()
}

fn size_at(bytes: &[u8], at: usize, what: &str) -> Result<u64, CodecError> {
    size_i32(bytes, at).map(|size| size as u64).ok_or_else(|| corrupt(format!("negative {what}")))
}

/// Narrows a size that a header gave, which is below 2^31.
fn to_usize(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 16] = [2, 1, 0x25, 4, 0, 1, 0, 0, 128, 0, 0, 0, 30, 0, 0, 0];

    #[test]
    fn reads_every_field() {
        let mut frame = FRAME;
        frame[2] = 0x34;
        let header = Header::parse(&frame).unwrap();
        assert_eq!(
            header,
            Header {
                version: 2,
                codec: InnerCodec::Lz4,
                shuffle: Shuffle::Bit,
                type_size: 4,
                nbytes: 256,
                block_size: 128,
                cbytes: 30,
                memcpyed: false,
                split: false,
            }
        );
        assert_eq!(header.block_count(), 2);
        assert_eq!(header.block_range(1), 128..256);
    }

    #[test]
    fn refuses_what_blosc_1_never_wrote() {
        let with = |at: usize, value: u8| {
            let mut frame = FRAME;
            frame[2] = 0x21;
            frame[at] = value;
            Header::parse(&frame)
        };
        assert!(with(2, 0x21).is_ok());
        for (at, value) in [(0, 1), (0, 3), (0, 5), (1, 2), (2, 0x29), (2, 0x25), (2, 0xa1)] {
            assert!(matches!(with(at, value), Err(CodecError::Unsupported { .. })), "byte {at} = {value}");
        }
        for (at, value) in [(3, 0), (7, 0x80), (8, 0), (11, 0x80), (12, 15), (15, 0x80)] {
            assert!(matches!(with(at, value), Err(CodecError::Corrupt { .. })), "byte {at} = {value}");
        }
        assert!(matches!(Header::parse(&FRAME[..15]), Err(CodecError::Corrupt { .. })));
    }

    #[test]
    fn an_empty_frame_has_no_blocks() {
        let frame = [2, 1, 0x32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0];
        assert_eq!(Header::parse(&frame).unwrap().block_count(), 0);
    }
}
