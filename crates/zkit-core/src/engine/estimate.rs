//! What a plan will cost, from samples of its largest arrays: nothing is written.

use std::time::{Duration, Instant};

use super::choose::{Filters, SampleSource, sample_array};
use super::gather::SourceReader;
use super::lanes;
use super::prepared::recoder;
use crate::cancel::Cancel;
use crate::codec::{Chain, CodecError, Scratch};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Meter;
use crate::kernels::copy::{Strided, c_strides, copy_strided};
use crate::metadata::{ArrayMetadata, CodecSpec};
use crate::plan::{ArrayCopy, CopyPlan, Strategy};
use crate::read::{ChunkSource, Piece, ReadContext, to_usize};
use crate::store::Store;

/// Arrays that are sampled, the largest first.
const SAMPLED_ARRAYS: usize = 6;
/// Chunks of each that are decoded.
const SAMPLED_CHUNKS: usize = 3;
/// Bytes that a chunk may decode to for a sample of it.
const SAMPLE_CHUNK_BYTES: u64 = 1 << 30;

/// What a run will write and take, extrapolated from samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Decoded bytes that were read and encoded for it.
    pub sampled_bytes: u64,
    /// Bytes of all encoded chunks.
    pub bytes_encoded: u64,
    /// Time for reading, decoding and encoding on all threads of the plan; writing and verifying come on top.
    pub time: Duration,
}

/// What samples gave.
#[derive(Debug, Clone, Copy, Default)]
struct Rates {
    decoded: u64,
    decode: Duration,
    taken: u64,
    encoded: u64,
    encode: Duration,
    /// Whether a codec has run before: the first run of one makes its contexts.
    is_warm: bool,
}

impl Rates {
    fn add(&mut self, other: Self) {
        self.decoded += other.decoded;
        self.decode += other.decode;
        self.taken += other.taken;
        self.encoded += other.encoded;
        self.encode += other.encode;
    }
}

/// What arrays cost by their rates.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    encoded: f64,
    /// On one thread.
    seconds: f64,
    /// Of the chunk that takes longest.
    longest: f64,
}

impl Cost {
    fn add(&mut self, array: &ArrayCopy, rates: Rates) {
        let decoded = float(decoded_bytes(array));
        let decodes = array.rechunk.as_ref().map_or(1.0, |rechunk| rechunk.decodes);
        let decode = rates.decode.as_secs_f64() / float(rates.decoded);
        let encode = rates.encode.as_secs_f64() / float(rates.taken);
        self.encoded += float(rates.encoded) * decoded / float(rates.taken);
        self.seconds += decoded * (decode * decodes + encode);
        if !array.is_rechunked() {
            self.longest = self.longest.max(float(array.decoded_chunk_bytes()) * (decode + encode));
        }
    }
}

/// The stores that one store of a plan is read from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// That of its arrays.
    pub source: &'a Store,
    /// Those that the parts of arrays which are gathered name; else none.
    pub parts: &'a [&'a Store],
}

/// Estimates what a plan writes and takes by reading and encoding some of its largest arrays, on one thread; `sources` are
/// those of each of its stores.
///
/// `None` where there is nothing to sample: no stored chunks, or none that are encoded anew.
pub fn estimate_copy(
    plan: &CopyPlan,
    sources: &[Sources<'_>],
    jobs: usize,
    cancel: &Cancel,
) -> Result<Option<Estimate>> {
    let mut by_size: Vec<&ArrayCopy> = plan.arrays.iter().filter(|array| is_encoded(array)).collect();
    by_size.sort_by_key(|array| std::cmp::Reverse((array.stored_bytes, decoded_bytes(array))));
    let (mut rates, mut of_arrays) = (Rates::default(), Vec::new());
    for array in by_size.iter().take(SAMPLED_ARRAYS) {
        let from = sources[array.store];
        let mut own = Rates { is_warm: rates.taken > 0, ..Rates::default() };
        let sampled = match &array.gather {
            Some(_) => sample_gathered(array, from, cancel, &mut own),
            None => sample(array, from.source, cancel, &mut own),
        };
        rates.add(own);
        of_arrays.push(own);
        match sampled {
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            // the copy finds, and names, what is wrong with it
            Err(error) => tracing::debug!(path = array.source.path, error = error.one_line(), "not sampled"),
            Ok(()) => {}
        }
    }
    if rates.taken == 0 || rates.decoded == 0 {
        return Ok(None);
    }
    // data of one store may be unlike: what was sampled speaks for its own array, and together for the others
    let own = of_arrays.into_iter().map(Some).chain(std::iter::repeat(None));
    let mut cost = Cost::default();
    for (array, own) in by_size.iter().zip(own) {
        cost.add(array, own.filter(|own| own.taken > 0 && own.decoded > 0).unwrap_or(rates));
    }
    let copied: u64 = plan
        .arrays
        .iter()
        .filter(|array| array.strategy == Strategy::CopyBytes)
        .map(|array| array.stored_bytes)
        .sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, of positive numbers"
    )]
    let bytes_encoded = cost.encoded as u64 + copied;
    let threads = float(jobs.min(plan.jobs).max(1) as u64);
    // however many threads there are, a chunk takes its time
    let time =
        Duration::try_from_secs_f64((cost.seconds / threads).max(cost.longest)).unwrap_or(Duration::MAX);
    Ok(Some(Estimate { sampled_bytes: rates.taken, bytes_encoded, time }))
}

fn is_encoded(array: &ArrayCopy) -> bool {
    array.strategy != Strategy::CopyBytes && !array.stored.is_empty()
}

/// Returns the bytes that rates are for: those of the chunks that are decoded, of what is gathered those that are taken.
fn decoded_bytes(array: &ArrayCopy) -> u64 {
    if array.gather.is_some() {
        return array.target.metadata.decoded_bytes().unwrap_or(0);
    }
    array.stored.len().saturating_mul(array.decoded_chunk_bytes())
}

/// Reads some chunks of an array, and encodes what will be written of it.
fn sample(array: &ArrayCopy, store: &Store, cancel: &Cancel, rates: &mut Rates) -> Result<()> {
    let (mut scratch, mut encoded, mut out) = (Scratch::new(), Vec::new(), Vec::new());
    let mut key = String::new();
    // a listing may promise more than any chunk of this shape holds
    let decoded = array.source.metadata.chunk_decoded_bytes();
    let plausible = decoded.map_or(u64::MAX, |bytes| bytes.saturating_mul(2).saturating_add(16 << 20));
    let encoded_limit = array.largest_bytes.saturating_mul(2).min(plausible);
    let known = array.known_stored();
    let step = known.len().div_ceil(SAMPLED_CHUNKS as u64).max(1);
    for position in known.iter().step_by(crate::units::saturating_usize(step)) {
        cancel.check()?;
        let index = array.source.metadata.grid.index_at(position);
        let shape = array.source.metadata.grid.chunk_shape(&index);
        array.source.chunk_key(&index, &mut key);
        let started = Instant::now();
        if array.decoded_chunk_bytes() > SAMPLE_CHUNK_BYTES
            || !store.get(&key, encoded_limit, &mut encoded)?
        {
            continue;
        }
        let read = started.elapsed();
        if array.is_rechunked() {
            let chain = Chain::compile(&array.source.metadata, &shape).map_err(crate::read::codec_error)?;
            let Some(bytes) = chain.decoded_bytes() else { continue };
            out.resize(bytes, 0);
            let started = Instant::now();
            chain.decode_into(&mut scratch, &encoded, &mut out).map_err(crate::read::codec_error)?;
            rates.decode += read + started.elapsed();
            rates.decoded += bytes as u64;
        } else {
            let recoder = recoder(array, &shape)?;
            if rates.taken == 0 && !rates.is_warm {
                // the first run of a codec makes its contexts
                let _ = recoder.recode(&mut scratch, &encoded, SAMPLE_CHUNK_BYTES, &mut out);
            }
            let cost = recoder
                .recode(&mut scratch, &encoded, SAMPLE_CHUNK_BYTES, &mut out)
                .map_err(crate::read::codec_error)?;
            rates.decode += read + cost.decode;
            rates.decoded += array.decoded_chunk_bytes();
            rates.encode += cost.encode;
            rates.encoded += out.len() as u64;
            rates.taken += array.decoded_chunk_bytes();
        }
    }
    if array.is_rechunked() {
        encode_pieces(array, store, cancel, &mut scratch, rates)?;
    }
    Ok(())
}

/// Reads what some chunks of the sources give to an array that is gathered, and encodes it.
fn sample_gathered(array: &ArrayCopy, from: Sources<'_>, cancel: &Cancel, rates: &mut Rates) -> Result<()> {
    let reader = SourceReader::new(array, from.source, from.parts, SAMPLE_CHUNK_BYTES)?;
    let Some(item) = array.source.metadata.data_type.item_bytes() else { return Ok(()) };
    let (grid, meter) = (&array.source.metadata.grid, Meter::default());
    let (mut scratch, mut piece, mut out) = (Scratch::new(), Vec::new(), Vec::new());
    let step = array.stored.len().div_ceil(SAMPLED_CHUNKS as u64).max(1);
    for position in array.stored.iter().step_by(crate::units::saturating_usize(step)) {
        cancel.check()?;
        let index = grid.index_at(position);
        let region = grid.chunk_region(&index);
        let started = Instant::now();
        piece.clear();
        reader.visit_part(&index, &region, &ChunkSource::Local, &meter, &mut |taken| {
            take_elements(taken, crate::units::saturating_usize(item), &mut piece)
        })?;
        rates.decode += started.elapsed();
        rates.decoded += piece.len() as u64;
        let Ok(chain) = flat_chain(&array.target.metadata, piece.len()) else { continue };
        if rates.taken == 0 && !rates.is_warm {
            // the first run of a codec makes its contexts
            let _ = chain.encode(&mut scratch, &piece, &mut out);
        }
        let started = Instant::now();
        if chain.encode(&mut scratch, &piece, &mut out).is_ok() {
            rates.encode += started.elapsed();
            rates.encoded += out.len() as u64;
            rates.taken += piece.len() as u64;
        }
    }
    Ok(())
}

/// Appends the elements of a piece, one behind the other.
fn take_elements(piece: Piece<'_>, item: usize, out: &mut Vec<u8>) -> Result<()> {
    let (region, bytes, layout) = match piece {
        Piece::Absent => return Ok(()),
        Piece::Fill { region, element } => {
            let count = region.elements().map_or(0, crate::units::saturating_usize);
            out.extend(element.iter().copied().cycle().take(count.saturating_mul(item)));
            return Ok(());
        }
        Piece::Elements { region, bytes, layout } => (region, bytes, layout),
    };
    let shape = to_usize(&region.shape);
    let start = out.len();
    out.resize(start + shape.iter().product::<usize>() * item, 0);
    let to = Strided { offset: 0, strides: &c_strides(&shape, item) };
    copy_strided(item, &shape, bytes, layout, &mut out[start..], to)
        .map_err(|error| Error::new(ErrorKind::Corrupt, "could not assemble a sample").with_source(error))
}

/// Encodes pieces of an array as they will lie in its new chunks.
fn encode_pieces(
    array: &ArrayCopy,
    store: &Store,
    cancel: &Cancel,
    scratch: &mut Scratch,
    rates: &mut Rates,
) -> Result<()> {
    let (pool, meter) = (lanes::pool(1)?, Meter::default());
    let context =
        ReadContext { pool: &pool, cancel, meter: &meter, in_flight_bytes: ReadContext::IN_FLIGHT_BYTES };
    let source = SampleSource {
        store,
        array: &array.source,
        stored: array.known_stored(),
        chunk_limit: SAMPLE_CHUNK_BYTES,
        filters: Filters::Undone,
    };
    let mut out = Vec::new();
    for piece in sample_array(&source, &array.target.metadata.chunk_shape(), context)? {
        let Ok(chain) = flat_chain(&array.target.metadata, piece.len()) else { continue };
        if rates.taken == 0 && !rates.is_warm {
            // the first run of a codec makes its contexts
            let _ = chain.encode(scratch, &piece, &mut out);
        }
        let started = Instant::now();
        if chain.encode(scratch, &piece, &mut out).is_ok() {
            rates.encode += started.elapsed();
            rates.encoded += out.len() as u64;
            rates.taken += piece.len() as u64;
        }
    }
    Ok(())
}

/// Returns the codecs of (inner) chunks for a run of elements: what depends on shapes is left out.
fn flat_chain(metadata: &ArrayMetadata, bytes: usize) -> std::result::Result<Chain, CodecError> {
    let specs: &[CodecSpec] = metadata.sharding().map_or(&metadata.codecs, |sharding| &sharding.codecs);
    let flat: Vec<CodecSpec> =
        specs.iter().filter(|spec| !matches!(spec, CodecSpec::Transpose(_))).cloned().collect();
    let item = metadata.data_type.item_bytes().unwrap_or(1).max(1);
    Chain::from_specs(&flat, &metadata.data_type, &[bytes as u64 / item], None)
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn float(number: u64) -> f64 {
    number as f64
}
