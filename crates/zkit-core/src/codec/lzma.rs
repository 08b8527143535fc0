//! LZMA: streams of three formats, read one after the other.

use std::io::Read;

use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Filters, LzmaOptions, Stream};

use super::error::CodecError;
use super::window::{self, Window};
use crate::metadata::{Json, LzmaSpec};

const CODEC: &str = "lzma";

/// The first bytes of an xz stream. Source: the .xz file format, section 2.1.1.1.
const XZ_MAGIC: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// Bytes of the header of an xz stream, in front of its first block.
const XZ_HEADER_BYTES: usize = 12;
/// The id of LZMA2 in the header of a block, and in Python's filters.
const LZMA2: u8 = 0x21;
/// The dictionaries of presets 0 to 9. Source: xz(1).
const PRESET_DICTIONARIES: [u64; 10] =
    [1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 22, 1 << 23, 1 << 23, 1 << 24, 1 << 25, 1 << 26];

/// The dictionary of the highest preset.
pub(super) const DICTIONARY_BYTES: u64 = 64 << 20;

/// Returns a reader of what a stream decodes to, at most `most` bytes, and what its dictionary takes of the `left` that windows
/// may have. A dictionary is filled as far as the stream has decoded: what it is beyond that takes no memory.
pub(super) fn reader<'a>(
    spec: &LzmaSpec,
    src: &'a [u8],
    most: u64,
    left: u64,
) -> Result<(impl Read + use<'a>, Option<Window>), CodecError> {
    let failed = |error: liblzma::stream::Error| CodecError::corrupt(CODEC, error.to_string());
    let unsupported =
        |error: liblzma::stream::Error| CodecError::Unsupported { codec: CODEC, what: error.to_string() };
    let window = |dictionary: u64| window::take(CODEC, dictionary.min(most), left);
    let (stream, window) = match spec.format {
        3 => {
            let (filters, dictionary) = filters(spec)?;
            (Stream::new_raw_decoder(&filters).map_err(unsupported)?, window(dictionary)?)
        }
        2 => (Stream::new_lzma_decoder(u64::MAX).map_err(failed)?, window(dictionary_alone(src))?),
        _ => {
            let dictionary = match src.starts_with(XZ_MAGIC) {
                true => dictionary_of_block(&src[XZ_HEADER_BYTES.min(src.len())..]).unwrap_or(0),
                false => dictionary_alone(src),
            };
            (Stream::new_auto_decoder(u64::MAX, CONCATENATED).map_err(failed)?, window(dictionary)?)
        }
    };
    Ok((XzDecoder::new_stream(src, stream), window))
}

/// Returns what a failure of reading says of the bytes: nothing, where liblzma could not have memory.
pub(super) fn failed(codec: &'static str, error: &std::io::Error) -> CodecError {
    use liblzma::stream::Error;
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::Mem | Error::MemLimit) => {
            CodecError::OverBudget { codec, what: "liblzma", needs: window::SMALL_BYTES, left: 0 }
        }
        _ => CodecError::corrupt(codec, error.to_string()),
    }
}

/// Returns the dictionary that the header of an `.lzma` stream names: properties, then 4 bytes. Source: XZ Utils,
/// lzma-file-format.txt, section 1.
fn dictionary_alone(src: &[u8]) -> u64 {
    src.get(1..5).map_or(0, |size| u64::from(u32::from_le_bytes([size[0], size[1], size[2], size[3]])))
}

/// Returns the dictionary that the header of an xz block names; `None` where it is cut, or holds no LZMA2. Source: the .xz file
/// format, sections 3.1 and 5.3.1.
fn dictionary_of_block(block: &[u8]) -> Option<u64> {
    let (&flags, mut rest) = block.get(1..)?.split_first()?;
    let number = |rest: &mut &[u8]| {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let (&byte, behind) = rest.split_first()?;
            *rest = behind;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    };
    // the compressed and the decoded size, where they are there
    for flag in [0x40, 0x80] {
        if flags & flag != 0 {
            number(&mut rest)?;
        }
    }
    for _ in 0..=flags & 3 {
        let (id, length) = (number(&mut rest)?, usize::try_from(number(&mut rest)?).ok()?);
        let properties = rest.split_off(..length)?;
        if id == u64::from(LZMA2) {
            let bits = properties.first()? & 0x3f;
            return Some(if bits >= 40 {
                u64::from(u32::MAX)
            } else {
                u64::from(2 | bits & 1) << (bits / 2 + 11)
            });
        }
    }
    None
}

/// Builds a raw filter chain from Python's filter dictionaries; returns its dictionary, too.
/// Source: <https://docs.python.org/3/library/lzma.html#specifying-custom-filter-chains>
fn filters(spec: &LzmaSpec) -> Result<(Filters, u64), CodecError> {
    let unsupported = |what: String| CodecError::Unsupported { codec: CODEC, what };
    let list = spec
        .filters
        .as_ref()
        .and_then(Json::as_array)
        .ok_or_else(|| unsupported("a raw stream without filters".to_owned()))?;
    let mut filters = Filters::new();
    let mut dictionary = 0;
    for filter in list {
        let value = |key: &str| filter.get(key).and_then(Json::as_integer::<u32>);
        match filter.get("id").and_then(Json::as_integer::<u64>) {
            Some(3) => {
                let distance = value("dist").unwrap_or(1).clamp(1, 256);
                #[expect(clippy::cast_possible_truncation, reason = "clamped to 1..=256")]
                filters
                    .delta_properties(&[(distance - 1) as u8])
                    .map_err(|error| unsupported(error.to_string()))?;
            }
            Some(id @ (0x21 | 0x4000_0000_0000_0001)) => {
                let preset = value("preset").unwrap_or(6);
                let mut options =
                    LzmaOptions::new_preset(preset).map_err(|error| unsupported(error.to_string()))?;
                let level = usize::try_from(preset & 0x1f).unwrap_or(0).min(PRESET_DICTIONARIES.len() - 1);
                dictionary = PRESET_DICTIONARIES[level];
                if let Some(size) = value("dict_size") {
                    options.dict_size(size);
                    dictionary = u64::from(size);
                }
                if let Some(bits) = value("lc") {
                    options.literal_context_bits(bits);
                }
                if let Some(bits) = value("lp") {
                    options.literal_position_bits(bits);
                }
                if let Some(bits) = value("pb") {
                    options.position_bits(bits);
                }
                if id == 0x21 {
                    filters.lzma2(&options)
                } else {
                    filters.lzma1(&options)
                };
            }
            other => return Err(unsupported(format!("the filter {other:?}"))),
        }
    }
    Ok((filters, dictionary))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `data` as xz with a dictionary of so many bytes.
    fn xz(data: &[u8], dictionary: u32) -> Vec<u8> {
        let mut options = LzmaOptions::new_preset(1).unwrap();
        options.dict_size(dictionary);
        let mut filters = Filters::new();
        filters.lzma2(&options);
        let stream = Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc64).unwrap();
        let mut out = Vec::new();
        liblzma::read::XzEncoder::new_stream(data, stream).read_to_end(&mut out).unwrap();
        out
    }

    fn decode(src: &[u8], most: u64, left: u64) -> Result<Vec<u8>, CodecError> {
        let spec = LzmaSpec { format: 1, filters: None };
        let (mut reader, _window) = reader(&spec, src, most, left)?;
        let mut out = Vec::new();
        reader.read_to_end(&mut out).map_err(|error| failed(CODEC, &error))?;
        Ok(out)
    }

    #[test]
    fn a_dictionary_takes_no_more_than_the_stream_decodes_to() {
        let data: Vec<u8> = (0..50_000u32).flat_map(u32::to_le_bytes).collect();
        // more than XZ Utils allow by default
        let src = xz(&data, 256 << 20);
        assert_eq!(dictionary_of_block(&src[XZ_HEADER_BYTES..]), Some(256 << 20));
        assert!(decode(&src, data.len() as u64, 0).unwrap() == data);
        let left = window::SMALL_BYTES;
        let refused =
            CodecError::OverBudget { codec: CODEC, what: "the window of a frame", needs: 2 * left, left };
        assert_eq!(decode(&src, 2 * left, left), Err(refused));
    }

    #[test]
    fn headers_that_are_cut_or_lie_name_no_dictionary() {
        let src = xz(b"abc", 1 << 20);
        for length in 0..src.len().min(24) {
            let cut = &src[..length];
            assert!(
                dictionary_of_block(cut.get(XZ_HEADER_BYTES..).unwrap_or_default())
                    .is_none_or(|size| size == 1 << 20)
            );
            assert!(decode(cut, 3, 0).is_err());
        }
        assert_eq!(dictionary_of_block(&[2, 0, 0x21, 0xff, 0xff]), None);
    }
}
