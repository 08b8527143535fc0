//! What one thread needs to run codecs: contexts and buffers that live as long as the thread.

use super::blosc;

/// Contexts and buffers of one thread; made once, grown to the largest chunk, reused for every other.
#[derive(Default)]
pub struct Scratch {
    pub(super) blosc_decoder: Option<blosc::Decoder>,
    pub(super) blosc_encoder: Option<blosc::Encoder>,
    pub(super) zstd_decoder: Option<zstd_safe::DCtx<'static>>,
    pub(super) zstd_encoder: Option<zstd_safe::CCtx<'static>>,
    pub(super) inflater: Option<libdeflater::Decompressor>,
    /// Buffers between the steps of a chain, taken and given back by each run.
    pub(super) buffers: Vec<Vec<u8>>,
    /// The scratch of inner chunks.
    pub(super) inner: Option<Box<Scratch>>,
}

impl Scratch {
    /// Returns an empty scratch; nothing is allocated before it is used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty buffer.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.take_used_buffer();
        buffer.clear();
        buffer
    }

    /// Returns a buffer of any length that holds anything: for those who overwrite it, so that bytes are not zeroed first.
    pub(super) fn take_used_buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        self.buffers.push(buffer);
    }

    /// Returns the scratch of inner chunks.
    pub(crate) fn inner(&mut self) -> &mut Self {
        self.inner.get_or_insert_default()
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}
