//! Bytes to frames that every blosc reads.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use super::super::CodecError;
use super::effort::{BLOCKS_WORTH_A_TRIAL, BlockCompressor};
use super::header::{
    FLAG_BITSHUFFLE, FLAG_MEMCPYED, FLAG_SHUFFLE, FLAG_UNSPLIT, FORMAT_VERSION, HEADER_BYTES,
    INNER_CODEC_SHIFT, INNER_VERSION, InnerCodec, MIN_BUFFER_BYTES, Shuffle, can_split, corrupt, unsupported,
};
use crate::kernels::bitshuffle::bit_shuffle;
use crate::kernels::shuffle::shuffle;

/// The largest buffer that a frame holds: sizes are `i32`, header included.
const MAX_BUFFER_BYTES: usize = i32::MAX as usize - HEADER_BYTES;

/// The largest block that c-blosc reads.
const MAX_BLOCK_BYTES: usize = (i32::MAX as usize - 255 * 4) / 3;

/// The block size that c-blosc starts from: a first-level cache.
const BASE_BLOCK_BYTES: usize = 32 << 10;

/// How hard to compress. A level of zstd stands for the size that it gives: where a sample of a frame gets as small with
/// less search, less search is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// `clevel` of c-blosc, 0 to 9; 0 stores.
    Blosc(u8),
    /// A level of zstd itself; only with [`InnerCodec::Zstd`].
    Zstd(i32),
}

/// How to make a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Params {
    /// Compressor of the streams: zstd, lz4 or zlib.
    pub codec: InnerCodec,
    /// How hard to compress.
    pub level: Level,
    /// Filter of the blocks.
    pub shuffle: Shuffle,
    /// Bytes of one element, 1 to 255.
    pub type_size: usize,
    /// Bytes of one block; c-blosc's own choice where `None`.
    pub block_size: Option<usize>,
}

/// Encodes frames, one after another, with the same contexts and buffers. Equal input gives equal frames.
#[derive(Default)]
pub struct Encoder {
    streams: StreamEncoder,
    /// A block with the filter applied.
    filtered: Vec<u8>,
    /// What the bit shuffle needs.
    tile: Vec<u8>,
}

impl Encoder {
    /// Returns an encoder that allocates nothing before it is used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the content of `out` by a frame that decodes to `src`, of at most `src.len() + 16` bytes.
    ///
    /// # Errors
    ///
    /// `Unsupported` where `src` is 2 GiB or larger, or `params` ask for what is not written.
    pub fn encode(&mut self, params: &Params, src: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let layout = Layout::new(params, src.len())?;
        out.clear();
        out.extend_from_slice(&layout.header());
        if layout.stored || !self.encode_blocks(&layout, src, out)? {
            out.truncate(HEADER_BYTES);
            out[2] |= FLAG_MEMCPYED;
            out.extend_from_slice(src);
        }
        let cbytes = le_i32(out.len())?;
        out[12..HEADER_BYTES].copy_from_slice(&cbytes);
        Ok(())
    }

    /// Appends block starts and blocks to `out`; `false` where that takes more room than storing `src`.
    fn encode_blocks(&mut self, layout: &Layout, src: &[u8], out: &mut Vec<u8>) -> Result<bool, CodecError> {
        let limit = HEADER_BYTES + src.len();
        let starts = src.len().div_ceil(layout.block_size) * 4;
        if HEADER_BYTES + starts > limit {
            return Ok(false);
        }
        out.resize(HEADER_BYTES + starts, 0);
        self.begin(layout, src);
        for (index, block) in src.chunks(layout.block_size).enumerate() {
            let start = le_i32(out.len())?;
            out[HEADER_BYTES + 4 * index..][..4].copy_from_slice(&start);
            let filtered = filter(layout, block, &mut self.filtered, &mut self.tile);
            for stream in filtered.chunks_exact(block.len() / layout.streams(block.len())) {
                let encoded = self.streams.encode(stream)?;
                if out.len() + 4 + encoded.len() > limit {
                    return Ok(false);
                }
                out.extend_from_slice(&le_i32(encoded.len())?);
                out.extend_from_slice(encoded);
            }
        }
        Ok(true)
    }

    /// Settles how the streams of `src` are compressed, where that depends on them by a block from the middle.
    fn begin(&mut self, layout: &Layout, src: &[u8]) {
        let planes = match layout.shuffle {
            Shuffle::None => 1,
            Shuffle::Byte => layout.type_size,
            Shuffle::Bit => layout.type_size * 8,
        };
        let blocks = src.len() / layout.block_size;
        let mut sample: &[u8] = &[];
        if planes > 1 && blocks >= BLOCKS_WORTH_A_TRIAL && layout.codec == InnerCodec::Zstd {
            let block = &src[blocks / 2 * layout.block_size..][..layout.block_size];
            sample = filter(layout, block, &mut self.filtered, &mut self.tile);
        }
        self.streams.begin(layout, planes, sample);
    }
}

/// What is decided before the first byte is read.
struct Layout {
    codec: InnerCodec,
    level: Level,
    shuffle: Shuffle,
    type_size: usize,
    nbytes: usize,
    block_size: usize,
    split: bool,
    /// Whether compression is not even tried.
    stored: bool,
}

impl Layout {
    fn new(params: &Params, nbytes: usize) -> Result<Self, CodecError> {
        let Params { codec, level, shuffle, type_size, block_size } = *params;
        if nbytes > MAX_BUFFER_BYTES {
            return Err(unsupported(format!("{nbytes} bytes in one frame, which holds {MAX_BUFFER_BYTES}")));
        }
        if !(1..=255).contains(&type_size) {
            return Err(unsupported(format!("type size {type_size}, 1 to 255 expected")));
        }
        let clevel = match (codec, level) {
            (InnerCodec::BloscLz | InnerCodec::Snappy, _) => {
                return Err(unsupported(format!("writing inner codec {}", codec.name())));
            }
            (_, Level::Blosc(clevel @ 0..=9)) => clevel,
            (_, Level::Blosc(clevel)) => return Err(unsupported(format!("level {clevel}, 0 to 9 expected"))),
            (InnerCodec::Zstd, Level::Zstd(level)) => nearest_clevel(level),
            (_, Level::Zstd(level)) => {
                return Err(unsupported(format!("zstd level {level} for inner codec {}", codec.name())));
            }
        };
        let block_size = match block_size {
            Some(wanted) => forced_block_size(wanted, type_size, nbytes),
            None => default_block_size(codec, clevel, type_size, nbytes),
        };
        let split = splits(codec, type_size, block_size);
        let stored = clevel == 0 || nbytes < MIN_BUFFER_BYTES;
        Ok(Self { codec, level, shuffle, type_size, nbytes, block_size, split, stored })
    }

    /// Returns the header, its last field zero.
    fn header(&self) -> [u8; HEADER_BYTES] {
        let filter = match self.shuffle {
            Shuffle::None => 0,
            Shuffle::Byte => FLAG_SHUFFLE,
            Shuffle::Bit => FLAG_BITSHUFFLE,
        };
        let split = if self.split { 0 } else { FLAG_UNSPLIT };
        let mut header = [0; HEADER_BYTES];
        header[0] = FORMAT_VERSION;
        header[1] = INNER_VERSION;
        header[2] = filter | split | self.codec.format() << INNER_CODEC_SHIFT;
        header[3] = self.type_size.to_le_bytes()[0];
        header[4..8].copy_from_slice(&self.nbytes.to_le_bytes()[..4]);
        header[8..12].copy_from_slice(&self.block_size.to_le_bytes()[..4]);
        header
    }

    fn streams(&self, block_bytes: usize) -> usize {
        if self.split && block_bytes == self.block_size { self.type_size } else { 1 }
    }
}

/// Returns the bytes of `block` as they are compressed.
fn filter<'a>(layout: &Layout, block: &'a [u8], filtered: &'a mut Vec<u8>, tile: &mut Vec<u8>) -> &'a [u8] {
    if layout.shuffle == Shuffle::None || layout.shuffle == Shuffle::Byte && layout.type_size == 1 {
        return block;
    }
    if filtered.len() < block.len() {
        filtered.resize(block.len(), 0);
    }
    let filtered = &mut filtered[..block.len()];
    match layout.shuffle {
        Shuffle::Bit => bit_shuffle(layout.type_size, block, filtered, tile),
        Shuffle::Byte | Shuffle::None => shuffle(layout.type_size, block, filtered),
    }
    filtered
}

/// Encodes single streams, with contexts made when first needed.
#[derive(Default)]
struct StreamEncoder {
    compressor: Compressor,
    zstd: BlockCompressor,
    zlib: Option<(i32, libdeflater::Compressor)>,
    lz4: Option<Lz4Tables>,
    encoded: Vec<u8>,
}

/// Match tables of lz4: for streams below 64 KiB, and for others. One table for both would grow with the first large
/// stream and from then on find other matches in small ones.
struct Lz4Tables {
    small: CompressTable,
    large: CompressTable,
}

impl Lz4Tables {
    fn new() -> Self {
        Self { small: CompressTable::small(), large: CompressTable::large() }
    }

    fn for_stream(&mut self, stream: &[u8]) -> &mut CompressTable {
        if stream.len() < usize::from(u16::MAX) { &mut self.small } else { &mut self.large }
    }
}

/// The compressor of the frame at hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Compressor {
    #[default]
    Lz4,
    Zlib(i32),
    Zstd,
}

impl StreamEncoder {
    /// From now on streams of `layout` are encoded; `sample` is one of them, of `planes` planes, or empty.
    fn begin(&mut self, layout: &Layout, planes: usize, sample: &[u8]) {
        self.compressor = match (layout.codec, layout.level) {
            (InnerCodec::Zstd, _) => Compressor::Zstd,
            (InnerCodec::Zlib, Level::Blosc(level)) => Compressor::Zlib(i32::from(level)),
            _ => Compressor::Lz4,
        };
        let level = match layout.level {
            Level::Blosc(clevel) => zstd_level(clevel),
            Level::Zstd(level) => level,
        };
        self.zstd.begin(level);
        if !sample.is_empty() {
            self.make_room(sample.len());
            self.zstd.tune(planes, sample, &mut self.encoded[..sample.len()]);
        }
    }

    fn make_room(&mut self, room: usize) {
        if self.encoded.len() < room {
            self.encoded.resize(room, 0);
        }
    }

    /// Returns `stream` encoded, or `stream` itself where that is not larger.
    fn encode<'a>(&'a mut self, stream: &'a [u8]) -> Result<&'a [u8], CodecError> {
        let room = match self.compressor {
            Compressor::Lz4 => get_maximum_output_size(stream.len()),
            Compressor::Zlib(_) | Compressor::Zstd => stream.len(),
        };
        self.make_room(room);
        let encoded = &mut self.encoded[..room];
        let len = match self.compressor {
            Compressor::Lz4 => {
                let table = self.lz4.get_or_insert_with(Lz4Tables::new).for_stream(stream);
                compress_into_with_table(stream, encoded, table).ok()
            }
            Compressor::Zlib(level) => {
                if self.zlib.as_ref().is_none_or(|(made_for, _)| *made_for != level) {
                    let level = libdeflater::CompressionLvl::new(level);
                    let level = level.map_err(|_| unsupported("zlib level out of range"))?;
                    self.zlib = None;
                    self.zlib = Some((0, libdeflater::Compressor::new(level)));
                }
                self.zlib.as_mut().and_then(|(_, zlib)| zlib.zlib_compress(stream, encoded).ok())
            }
            Compressor::Zstd => self.zstd.compress(stream, encoded),
        };
        // a stream of the decoded length is taken for a stored one
        Ok(match len {
            Some(len) if 0 < len && len < stream.len() => &self.encoded[..len],
            _ => stream,
        })
    }
}

/// Returns the level of zstd that c-blosc takes for `clevel`.
fn zstd_level(clevel: u8) -> i32 {
    match clevel {
        0..8 => i32::from(clevel) * 2 - 1,
        8 => zstd_safe::max_c_level() - 2,
        _ => zstd_safe::max_c_level(),
    }
}

/// Returns the `clevel` whose default block size suits a level of zstd.
fn nearest_clevel(level: i32) -> u8 {
    let clevel = (level.clamp(1, 17) + 1) / 2;
    clevel.to_le_bytes()[0]
}

/// Returns whether c-blosc splits full blocks, as every version since 1.0 reads them.
fn splits(codec: InnerCodec, type_size: usize, block_size: usize) -> bool {
    codec != InnerCodec::Zstd && can_split(type_size, block_size)
}

fn forced_block_size(wanted: usize, type_size: usize, nbytes: usize) -> usize {
    if nbytes < type_size {
        return 1;
    }
    fitted(wanted.clamp(MIN_BUFFER_BYTES, MAX_BLOCK_BYTES), type_size, nbytes)
}

/// Returns the block size that c-blosc 1.21 chooses (`compute_blocksize` in `blosc.c`).
fn default_block_size(codec: InnerCodec, clevel: u8, type_size: usize, nbytes: usize) -> usize {
    if nbytes < type_size {
        return 1;
    }
    let mut block_size = nbytes;
    if nbytes >= BASE_BLOCK_BYTES {
        let high_ratio = matches!(codec, InnerCodec::Zlib | InnerCodec::Zstd);
        let base = if high_ratio { 2 * BASE_BLOCK_BYTES } else { BASE_BLOCK_BYTES };
        block_size = match clevel {
            0 => base / 4,
            1 => base / 2,
            2 => base,
            3 => base * 2,
            4 | 5 => base * 4,
            6..=8 => base * 8,
            _ if high_ratio => base * 16,
            _ => base * 8,
        };
    }
    if clevel > 0 && splits(codec, type_size, block_size) {
        block_size = (block_size.min(1 << 18) * type_size).clamp(1 << 16, 1 << 20);
    }
    fitted(block_size, type_size, nbytes)
}

/// Returns `block_size` cut to the buffer and to whole elements.
fn fitted(block_size: usize, type_size: usize, nbytes: usize) -> usize {
    let block_size = block_size.min(nbytes);
    if block_size > type_size { block_size / type_size * type_size } else { block_size }
}

fn le_i32(size: usize) -> Result<[u8; 4], CodecError> {
    i32::try_from(size).map(i32::to_le_bytes).map_err(|_| corrupt("frame over 2 GiB"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Decoder, Header};
    use super::*;

    /// Bytes of slowly changing numbers, of runs, or of noise.
    fn buffers() -> impl Strategy<Value = Vec<u8>> {
        let len = || {
            prop_oneof![
                prop::sample::select(vec![0, 1, 15, 16, 17, 127, 128, 129, 65536, 65537]),
                0..70_000_usize
            ]
        };
        let smooth = (len(), 1..1000_u32).prop_map(|(len, step)| {
            let numbers = (0..=len / 4).zip(0_u32..);
            numbers.flat_map(|(_, index)| (index / 3 * step).to_le_bytes()).take(len).collect()
        });
        prop_oneof![
            smooth,
            (len(), any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
            prop::collection::vec(any::<u8>(), 0..3000),
        ]
    }

    fn params() -> impl Strategy<Value = Params> {
        let compressors = prop_oneof![
            (Just(InnerCodec::Lz4), (0..=9_u8).prop_map(Level::Blosc)),
            (Just(InnerCodec::Zlib), (0..=9_u8).prop_map(Level::Blosc)),
            (Just(InnerCodec::Zstd), (0..=6_u8).prop_map(Level::Blosc)),
            (Just(InnerCodec::Zstd), (-5..=9_i32).prop_map(Level::Zstd)),
        ];
        let shuffles = prop::sample::select(vec![Shuffle::None, Shuffle::Byte, Shuffle::Bit]);
        let type_sizes = prop_oneof![prop::sample::select(vec![1_usize, 2, 4, 8, 16]), 1..=255_usize];
        let block_sizes = prop::option::of(prop_oneof![0..2000_usize, 2000..100_000_usize]);
        (compressors, shuffles, type_sizes, block_sizes).prop_map(
            |((codec, level), shuffle, type_size, block_size)| Params {
                codec,
                level,
                shuffle,
                type_size,
                block_size,
            },
        )
    }

    proptest! {
        #[test]
        fn frames_decode_to_what_was_encoded(params in params(), src in buffers(), other in buffers()) {
            let mut encoder = Encoder::new();
            let (mut frame, mut again) = (Vec::new(), vec![1; 40]);
            encoder.encode(&params, &src, &mut frame).unwrap();
            prop_assert!(frame.len() <= src.len() + HEADER_BYTES);
            prop_assert_eq!(Header::parse(&frame).unwrap().cbytes, frame.len() as u64);
            let mut decoded = vec![1; src.len()];
            Decoder::new().decode_into(&frame, &mut decoded).unwrap();
            prop_assert!(decoded == src);
            // what was encoded before leaves no trace
            encoder.encode(&params, &other, &mut again).unwrap();
            encoder.encode(&params, &src, &mut again).unwrap();
            prop_assert!(again == frame);
        }
    }

    const FLOATS: Params = Params {
        codec: InnerCodec::Zstd,
        level: Level::Blosc(3),
        shuffle: Shuffle::Bit,
        type_size: 4,
        block_size: None,
    };

    #[test]
    fn block_sizes_are_those_of_c_blosc() {
        let size = |codec, level, type_size, nbytes| {
            Layout::new(&Params { codec, level: Level::Blosc(level), type_size, ..FLOATS }, nbytes)
                .unwrap()
                .block_size
        };
        assert_eq!(size(InnerCodec::Zstd, 3, 4, 4 << 20), 128 << 10);
        assert_eq!(size(InnerCodec::Zstd, 9, 4, 4 << 20), 1 << 20);
        assert_eq!(size(InnerCodec::Lz4, 5, 4, 4 << 20), 512 << 10);
        assert_eq!(size(InnerCodec::Lz4, 5, 1, 4 << 20), 128 << 10);
        assert_eq!(size(InnerCodec::Lz4, 5, 17, 4 << 20), (128 << 10) / 17 * 17);
        assert_eq!(size(InnerCodec::Zlib, 5, 8, 1001), 1000);
        assert_eq!(size(InnerCodec::Zstd, 5, 8, 7), 1);
    }

    #[test]
    fn refuses_what_no_frame_holds() {
        let mut encoder = Encoder::new();
        for params in [
            Params { codec: InnerCodec::BloscLz, ..FLOATS },
            Params { codec: InnerCodec::Snappy, ..FLOATS },
            Params { level: Level::Blosc(10), ..FLOATS },
            Params { codec: InnerCodec::Lz4, level: Level::Zstd(3), ..FLOATS },
            Params { type_size: 0, ..FLOATS },
            Params { type_size: 256, ..FLOATS },
        ] {
            let result = encoder.encode(&params, &[0; 1000], &mut Vec::new());
            assert!(matches!(result, Err(CodecError::Unsupported { .. })), "{params:?}");
        }
        assert!(Layout::new(&FLOATS, MAX_BUFFER_BYTES).is_ok());
        assert!(matches!(Layout::new(&FLOATS, MAX_BUFFER_BYTES + 1), Err(CodecError::Unsupported { .. })));
    }
}
