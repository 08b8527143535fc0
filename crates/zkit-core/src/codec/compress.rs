//! Compressors: bytes to fewer bytes. Decoding never writes beyond what metadata promises or the caller allows.

use std::io::Read as _;

use super::blosc;
use super::error::CodecError;
use super::lzma;
use super::scratch::Scratch;
use super::zstd;
use crate::kernels::shuffle;
use crate::metadata::{BloscShuffle, BloscSpec, CodecSpec};
use crate::units::saturating_usize;

/// Decodes `src` into `dst`, filling it exactly; windows may take `window_bytes`.
pub(super) fn decode_exact(
    spec: &CodecSpec,
    src: &[u8],
    dst: &mut [u8],
    (scratch, window_bytes): (&mut Scratch, u64),
) -> Result<(), CodecError> {
    let expected = dst.len() as u64;
    let exact = |codec, found: usize| {
        if found as u64 == expected {
            Ok(())
        } else {
            Err(CodecError::Size { codec, found: found as u64, expected })
        }
    };
    match spec {
        CodecSpec::Blosc(_) => {
            scratch.blosc_decoder.get_or_insert_with(blosc::Decoder::new).decode_into(src, dst)
        }
        CodecSpec::Zstd { .. } => exact("zstd", zstd::decode(src, dst, scratch)?),
        CodecSpec::Gzip(_) => {
            let inflater = scratch.inflater.get_or_insert_with(libdeflater::Decompressor::new);
            match inflater.gzip_decompress(src, dst) {
                Ok(found) if found == dst.len() => Ok(()),
                // shorter: perhaps the first of several members; anything else is told by the slower decoder
                _ => exact("gzip", read_into("gzip", flate2::read::MultiGzDecoder::new(src), dst)?),
            }
        }
        CodecSpec::Zlib(_) => {
            let inflater = scratch.inflater.get_or_insert_with(libdeflater::Decompressor::new);
            match inflater.zlib_decompress(src, dst) {
                Ok(found) => exact("zlib", found),
                Err(_) => exact("zlib", read_into("zlib", flate2::read::ZlibDecoder::new(src), dst)?),
            }
        }
        CodecSpec::Bz2(_) => exact("bz2", read_into("bz2", bzip2::read::MultiBzDecoder::new(src), dst)?),
        CodecSpec::Lzma(spec) => {
            let (reader, _window) = lzma::reader(spec, src, expected, window_bytes)?;
            exact("lzma", read_into("lzma", reader, dst)?)
        }
        CodecSpec::Lz4 => {
            let (claimed, block) = lz4_parts(src)?;
            if claimed != expected {
                return Err(CodecError::Size { codec: "lz4", found: claimed, expected });
            }
            let found = lz4_flex::block::decompress_into(block, dst)
                .map_err(|error| CodecError::corrupt("lz4", error.to_string()))?;
            exact("lz4", found)
        }
        CodecSpec::Shuffle(element_bytes) => {
            if src.len() != dst.len() {
                return Err(CodecError::Size { codec: "shuffle", found: src.len() as u64, expected });
            }
            shuffle::unshuffle((*element_bytes).max(1), src, dst);
            Ok(())
        }
        CodecSpec::Base64 => {
            let decoded = decode_base64(src)?;
            exact("base64", decoded.len())?;
            dst.copy_from_slice(&decoded);
            Ok(())
        }
        other => Err(CodecError::Unsupported { codec: "codec", what: format!("{other} is no compressor") }),
    }
}

/// Decodes `src` of unknown decoded size into `out`, at most `limit` bytes, which is what memory allows; windows may take
/// `window_bytes`.
pub(super) fn decode_bounded(
    spec: &CodecSpec,
    src: &[u8],
    limit: u64,
    out: &mut Vec<u8>,
    (scratch, window_bytes): (&mut Scratch, u64),
) -> Result<(), CodecError> {
    out.clear();
    let claimed = match spec {
        CodecSpec::Blosc(_) => Some(("blosc", blosc::Header::parse(src)?.nbytes)),
        CodecSpec::Zstd { .. } => {
            zstd_safe::get_frame_content_size(src).ok().flatten().map(|claimed| ("zstd", claimed))
        }
        CodecSpec::Lz4 => Some(("lz4", lz4_parts(src)?.0)),
        CodecSpec::Shuffle(_) => Some(("shuffle", src.len() as u64)),
        _ => None,
    };
    if let Some((codec, claimed)) = claimed {
        if claimed > limit {
            return Err(CodecError::too_large(codec, claimed, limit));
        }
        // zeroed pages are not taken from the system before they are written
        out.resize(saturating_usize(claimed), 0);
        return decode_exact(spec, src, out, (scratch, window_bytes));
    }
    match spec {
        CodecSpec::Zstd { .. } => zstd::decode_stream(src, limit, window_bytes, out, scratch),
        CodecSpec::Gzip(_) => read_bounded("gzip", flate2::read::MultiGzDecoder::new(src), limit, out),
        CodecSpec::Zlib(_) => read_bounded("zlib", flate2::read::ZlibDecoder::new(src), limit, out),
        CodecSpec::Bz2(_) => read_bounded("bz2", bzip2::read::MultiBzDecoder::new(src), limit, out),
        CodecSpec::Lzma(spec) => {
            let (reader, _window) = lzma::reader(spec, src, limit, window_bytes)?;
            read_bounded("lzma", reader, limit, out)
        }
        CodecSpec::Base64 => {
            *out = decode_base64(src)?;
            Ok(())
        }
        other => Err(CodecError::Unsupported { codec: "codec", what: format!("{other} is no compressor") }),
    }
}

/// Returns whether [`encode`] knows the codec.
pub(super) fn can_encode(spec: &CodecSpec) -> bool {
    match spec {
        CodecSpec::Blosc(blosc) => blosc_params(blosc).is_ok(),
        CodecSpec::Zstd { .. }
        | CodecSpec::Gzip(_)
        | CodecSpec::Zlib(_)
        | CodecSpec::Lz4
        | CodecSpec::Shuffle(_) => true,
        _ => false,
    }
}

/// Appends the encoding of `src` to `out`.
pub(super) fn encode(
    spec: &CodecSpec,
    src: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<(), CodecError> {
    match spec {
        CodecSpec::Blosc(blosc) => {
            let params = blosc_params(blosc)?;
            let start = out.len();
            let encoder = scratch.blosc_encoder.get_or_insert_with(blosc::Encoder::new);
            if start == 0 {
                return encoder.encode(&params, src, out);
            }
            let mut frame = Vec::new();
            encoder.encode(&params, src, &mut frame)?;
            out.extend_from_slice(&frame);
            Ok(())
        }
        CodecSpec::Zstd { level, checksum } => zstd::encode((*level, *checksum), src, out, scratch),
        CodecSpec::Gzip(level) => {
            let mut deflater = deflater(*level);
            let bound = deflater.gzip_compress_bound(src.len());
            append_bounded(out, bound, |space| {
                deflater
                    .gzip_compress(src, space)
                    .map_err(|error| CodecError::corrupt("gzip", error.to_string()))
            })
        }
        CodecSpec::Zlib(level) => {
            let mut deflater = deflater(*level);
            let bound = deflater.zlib_compress_bound(src.len());
            append_bounded(out, bound, |space| {
                deflater
                    .zlib_compress(src, space)
                    .map_err(|error| CodecError::corrupt("zlib", error.to_string()))
            })
        }
        CodecSpec::Lz4 => {
            let length = u32::try_from(src.len()).map_err(|_| CodecError::Unsupported {
                codec: "lz4",
                what: format!("{} bytes in one chunk", src.len()),
            })?;
            out.extend_from_slice(&length.to_le_bytes());
            append_bounded(out, lz4_flex::block::get_maximum_output_size(src.len()), |space| {
                lz4_flex::block::compress_into(src, space)
                    .map_err(|error| CodecError::corrupt("lz4", error.to_string()))
            })
        }
        CodecSpec::Shuffle(element_bytes) => append_bounded(out, src.len(), |space| {
            shuffle::shuffle((*element_bytes).max(1), src, space);
            Ok(src.len())
        }),
        other => {
            Err(CodecError::Unsupported { codec: "codec", what: format!("zkit does not write {other}") })
        }
    }
}

/// Lets `write` fill up to `bound` bytes behind what `out` holds; it returns how many it wrote.
pub(super) fn append_bounded(
    out: &mut Vec<u8>,
    bound: usize,
    write: impl FnOnce(&mut [u8]) -> Result<usize, CodecError>,
) -> Result<(), CodecError> {
    let start = out.len();
    out.resize(start + bound, 0);
    let written = write(&mut out[start..])?;
    out.truncate(start + written);
    Ok(())
}

fn deflater(level: i32) -> libdeflater::Compressor {
    let level = libdeflater::CompressionLvl::new(level.clamp(0, 12)).unwrap_or_default();
    libdeflater::Compressor::new(level)
}

fn blosc_params(spec: &BloscSpec) -> Result<blosc::Params, CodecError> {
    let codec = match spec.compressor.as_str() {
        "zstd" => blosc::InnerCodec::Zstd,
        "lz4" => blosc::InnerCodec::Lz4,
        "zlib" => blosc::InnerCodec::Zlib,
        other => {
            return Err(CodecError::Unsupported {
                codec: "blosc",
                what: format!("zkit does not write the inner compressor {other}"),
            });
        }
    };
    let shuffle = match spec.shuffle {
        BloscShuffle::None => blosc::Shuffle::None,
        BloscShuffle::Byte => blosc::Shuffle::Byte,
        BloscShuffle::Bit => blosc::Shuffle::Bit,
        BloscShuffle::Auto if spec.type_bytes == 1 => blosc::Shuffle::Bit,
        BloscShuffle::Auto => blosc::Shuffle::Byte,
    };
    let block_size = (spec.block_bytes > 0).then_some(spec.block_bytes as usize);
    Ok(blosc::Params {
        codec,
        level: blosc::Level::Blosc(spec.level),
        shuffle,
        type_size: usize::from(spec.type_bytes),
        block_size,
    })
}

/// Fills `dst` from a decoder; returns how many bytes it gave, one more than fit if it would give more.
fn read_into(
    codec: &'static str,
    mut reader: impl std::io::Read,
    dst: &mut [u8],
) -> Result<usize, CodecError> {
    let failed = |error: std::io::Error| lzma::failed(codec, &error);
    let mut filled = 0;
    while filled < dst.len() {
        match reader.read(&mut dst[filled..]).map_err(failed)? {
            0 => return Ok(filled),
            read => filled += read,
        }
    }
    Ok(filled + reader.read(&mut [0]).map_err(failed)?)
}

fn read_bounded(
    codec: &'static str,
    reader: impl std::io::Read,
    limit: u64,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    reader.take(limit.saturating_add(1)).read_to_end(out).map_err(|error| lzma::failed(codec, &error))?;
    if out.len() as u64 > limit {
        return Err(CodecError::too_large(codec, out.len() as u64, limit));
    }
    Ok(())
}

fn lz4_parts(src: &[u8]) -> Result<(u64, &[u8]), CodecError> {
    let (length, block) = src
        .split_first_chunk()
        .ok_or_else(|| CodecError::corrupt("lz4", "shorter than its length prefix"))?;
    Ok((u64::from(u32::from_le_bytes(*length)), block))
}

fn decode_base64(src: &[u8]) -> Result<Vec<u8>, CodecError> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(src)
        .map_err(|error| CodecError::corrupt("base64", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(spec: &CodecSpec) {
        let data: Vec<u8> = (0..10_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        let mut scratch = Scratch::new();
        let mut encoded = Vec::new();
        encode(spec, &data, &mut encoded, &mut scratch).unwrap();
        let mut decoded = vec![0; data.len()];
        decode_exact(spec, &encoded, &mut decoded, (&mut scratch, 0)).unwrap();
        assert!(decoded == data, "{spec}");
        decode_bounded(spec, &encoded, data.len() as u64, &mut decoded, (&mut scratch, 0)).unwrap();
        assert!(decoded == data, "{spec}");
        for wrong in [data.len() - 1, data.len() + 1] {
            assert!(
                decode_exact(spec, &encoded, &mut vec![0; wrong], (&mut scratch, 0)).is_err(),
                "{spec} into {wrong}"
            );
        }
        // that memory is short says nothing of the bytes
        let short = decode_bounded(spec, &encoded, data.len() as u64 - 1, &mut decoded, (&mut scratch, 0));
        assert!(matches!(short, Err(CodecError::OverBudget { .. })), "{spec}: {short:?}");
        for cut in [0, 1, 3, encoded.len() / 2, encoded.len() - 1] {
            assert!(
                decode_exact(spec, &encoded[..cut], &mut vec![0; data.len()], (&mut scratch, 0)).is_err(),
                "{spec} cut to {cut}"
            );
        }
    }

    #[test]
    fn every_written_codec_round_trips_and_refuses_other_sizes() {
        let blosc = |compressor: &str, shuffle| {
            CodecSpec::Blosc(BloscSpec {
                compressor: compressor.to_owned(),
                level: 5,
                shuffle,
                type_bytes: 4,
                block_bytes: 0,
            })
        };
        for spec in [
            CodecSpec::Zstd { level: 3, checksum: true },
            CodecSpec::Zstd { level: -1, checksum: false },
            CodecSpec::Gzip(5),
            CodecSpec::Zlib(1),
            CodecSpec::Lz4,
            blosc("zstd", BloscShuffle::Bit),
            blosc("lz4", BloscShuffle::Byte),
            blosc("zlib", BloscShuffle::None),
        ] {
            round_trip(&spec);
        }
    }
}
