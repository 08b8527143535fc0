//! zarrs, the other implementation: one chunk encoded and decoded with the codecs of an array's metadata.

use std::num::NonZeroU64;
use std::sync::Arc;

use zarrs::array::{Array, ArrayBytes, ArrayMetadata, ArrayToBytesCodecTraits as _, CodecOptions};
use zarrs::storage::store::MemoryStore;

/// An array of zarrs with one chunk.
pub(crate) struct Oracle {
    array: Array<MemoryStore>,
    shape: Vec<NonZeroU64>,
    options: CodecOptions,
}

impl Oracle {
    /// Returns the oracle of an array, from the same `zarr.json` that zkit reads.
    pub(crate) fn new(metadata: &str) -> Self {
        let metadata = ArrayMetadata::try_from(metadata).expect("zarrs reads the metadata");
        let array = Array::new_with_metadata(Arc::new(MemoryStore::new()), "/", metadata)
            .expect("zarrs knows the codecs");
        let shape =
            array.shape().iter().map(|&length| NonZeroU64::new(length).expect("chunks hold elements"));
        Self { shape: shape.collect(), array, options: CodecOptions::default() }
    }

    /// Encodes the canonical elements of the chunk.
    pub(crate) fn encode(&self, decoded: &[u8]) -> Vec<u8> {
        self.encode_elements(ArrayBytes::new_flen(decoded.to_vec()))
    }

    /// Decodes the chunk to canonical elements.
    pub(crate) fn decode(&self, encoded: &[u8]) -> Vec<u8> {
        let decoded = self.decode_elements(encoded).into_fixed().expect("elements of fixed size");
        decoded.into_owned()
    }

    /// Encodes elements of any length.
    pub(crate) fn encode_variable(&self, elements: &[Vec<u8>]) -> Vec<u8> {
        let mut offsets = vec![0];
        offsets.extend(elements.iter().scan(0, |end, element| {
            *end += element.len();
            Some(*end)
        }));
        let offsets = zarrs::array::ArrayBytesOffsets::new(offsets).expect("offsets rise");
        self.encode_elements(
            ArrayBytes::new_vlen(elements.concat(), offsets).expect("offsets end with the bytes"),
        )
    }

    /// Decodes the chunk to elements of any length.
    pub(crate) fn decode_variable(&self, encoded: &[u8]) -> Vec<Vec<u8>> {
        let decoded = self.decode_elements(encoded).into_variable().expect("elements of any length");
        let (bytes, offsets) = decoded.into_parts();
        offsets.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec()).collect()
    }

    fn encode_elements(&self, elements: ArrayBytes<'_>) -> Vec<u8> {
        self.array
            .codecs()
            .encode(elements, &self.shape, self.array.data_type(), self.array.fill_value(), &self.options)
            .expect("zarrs encodes the chunk")
            .into_owned()
    }

    fn decode_elements(&self, encoded: &[u8]) -> ArrayBytes<'static> {
        self.array
            .codecs()
            .decode(
                encoded.to_vec().into(),
                &self.shape,
                self.array.data_type(),
                self.array.fill_value(),
                &self.options,
            )
            .expect("zarrs decodes the chunk")
            .into_owned()
    }
}
