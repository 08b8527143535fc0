//! What a slice reads of its sources: objects for each variable, which bounds it where variables are many and small.

use serde::Serialize;
use zkit_core::engine::Touched;
use zkit_report::format::counted;

/// Objects that are read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Reads {
    /// Chunks of sources, each once.
    chunks: u64,
    /// Arrays of the slices.
    arrays: u64,
    /// Sources, each of which is opened by its metadata.
    stores: u64,
    chunks_per_array: f64,
}

impl Reads {
    /// Adds up what arrays touch.
    pub(crate) fn of(touched: &[Touched], stores: usize) -> Self {
        let chunks: u64 = touched.iter().flat_map(|array| &array.parts).map(|part| part.chunks).sum();
        let arrays = touched.len() as u64;
        #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
        let chunks_per_array = if arrays == 0 { 0.0 } else { chunks as f64 / arrays as f64 };
        Self { chunks, arrays, stores: stores as u64, chunks_per_array }
    }

    /// Returns it for people.
    pub(crate) fn fact(&self) -> (String, String) {
        let text = format!(
            "{} of {} for {}: {:.1} each, beside the metadata of the stores",
            counted(self.chunks, "chunk", "chunks"),
            counted(self.stores, "store", "stores"),
            counted(self.arrays, "array", "arrays"),
            self.chunks_per_array
        );
        ("reads".to_owned(), text)
    }
}

#[cfg(test)]
mod tests {
    use zkit_core::engine::TouchedPart;

    use super::*;

    #[test]
    fn chunks_are_counted_for_each_array() {
        let part = |chunks| TouchedPart { chunks, ..TouchedPart::default() };
        let touched = |parts| Touched { parts };
        let reads = Reads::of(&[touched(vec![part(2), part(1)]), touched(vec![part(2)])], 2);
        assert_eq!((reads.chunks, reads.chunks_per_array), (5, 2.5));
        assert!(
            reads.fact().1.starts_with("5 chunks of 2 stores for 2 arrays: 2.5 each"),
            "{:?}",
            reads.fact()
        );
        assert!(Reads::of(&[], 0).chunks_per_array.abs() < f64::EPSILON);
    }
}
