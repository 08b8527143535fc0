//! Windows: what decoders hold of what they decoded before. Small ones are a part of what a thread takes; large ones share one
//! allowance, so that threads take turns instead of multiplying them.

use std::sync::{Condvar, Mutex, PoisonError};

use super::error::CodecError;
use super::lzma;
use crate::metadata::CodecSpec;

/// Windows up to this size are not counted: those of zstd up to level 19, of LZMA up to preset 6.
pub(super) const SMALL_BYTES: u64 = 8 << 20;

/// Windows up to this size fit what a run may take beside its budget, one at a time.
const LONG_BYTES: u64 = 128 << 20;

/// The bytes of all large windows of the process.
static HELD_BYTES: Mutex<u64> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// A large window that a thread holds, until it is dropped.
#[derive(Debug)]
pub(super) struct Window(u64);

/// Returns what the windows of frames in chunks of so many decoded bytes may take, as far as metadata tells: 0 where they are
/// small. Frames of zstd have windows as large as their level makes them, or as somebody asked for.
pub(crate) fn expected_bytes<'a>(
    specs: impl IntoIterator<Item = &'a CodecSpec>,
    chunk_bytes: u64,
    memory_bytes: u64,
) -> u64 {
    let most = |spec: &CodecSpec| match spec {
        CodecSpec::Zstd { level: 22.., .. } => 128 << 20,
        CodecSpec::Zstd { level: 21, .. } => 64 << 20,
        CodecSpec::Zstd { level: 20, .. } => 32 << 20,
        // more than any level asks for: `zstd --long`
        CodecSpec::Zstd { .. } if chunk_bytes > LONG_BYTES => memory_bytes / 4,
        CodecSpec::Zstd { .. } => 0,
        CodecSpec::Lzma(_) => lzma::DICTIONARY_BYTES,
        _ => 0,
    };
    let most = specs.into_iter().map(most).max().unwrap_or(0);
    Some(most.min(chunk_bytes)).filter(|&bytes| bytes > SMALL_BYTES).unwrap_or(0)
}

/// Takes a window of `needs` bytes; waits while others hold so much that all of them are more than `left`. `None` for a small
/// one.
///
/// Errors: `OverBudget` where it alone is more than that.
pub(super) fn take(codec: &'static str, needs: u64, left: u64) -> Result<Option<Window>, CodecError> {
    if needs <= SMALL_BYTES {
        return Ok(None);
    }
    if needs > left {
        return Err(CodecError::OverBudget { codec, what: "the window of a frame", needs, left });
    }
    let held = HELD_BYTES.lock().unwrap_or_else(PoisonError::into_inner);
    let is_full = |held: &mut u64| *held > 0 && held.saturating_add(needs) > left;
    let mut held = GIVEN_BACK.wait_while(held, is_full).unwrap_or_else(PoisonError::into_inner);
    *held += needs;
    Ok(Some(Window(needs)))
}

impl Drop for Window {
    fn drop(&mut self) {
        *HELD_BYTES.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        GIVEN_BACK.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn large_windows_take_turns_and_too_large_ones_are_refused() {
        assert!(take("zstd", SMALL_BYTES, 0).unwrap().is_none());
        let needs = SMALL_BYTES + 1;
        assert!(
            matches!(take("zstd", needs, needs - 1), Err(CodecError::OverBudget { left, .. }) if left < needs)
        );
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let window = take("zstd", needs, 2 * needs).unwrap();
                        most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        held.fetch_sub(1, Ordering::SeqCst);
                        drop(window);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 2);
    }
}
