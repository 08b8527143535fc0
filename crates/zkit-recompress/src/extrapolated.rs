//! With `--first`: what all arrays would take, by those that were copied.

use std::time::Duration;

use serde::Serialize;
use zkit_cli::writing::Done;
use zkit_core::event::Meter;
use zkit_core::plan::CopyPlan;
use zkit_report::format;

use crate::source::Source;

/// What a finished run says of arrays that it left out, in a field of its answer.
#[derive(Debug, Serialize)]
pub(crate) struct Extrapolation {
    extrapolated: Option<Extrapolated>,
}

/// What the arrays that are left out would add, by a plan of their own.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeftOut {
    pub(crate) decoded_bytes: u64,
    /// In the source.
    pub(crate) stored_bytes: u64,
    pub(crate) objects: u64,
}

/// What all arrays would take.
#[derive(Debug, Serialize)]
struct Extrapolated {
    arrays: usize,
    seconds: f64,
    bytes_written: u64,
    objects_written: u64,
}

impl Extrapolation {
    /// Scales what the copied arrays took to all of them: time by decoded bytes, size by bytes in the source; objects are those
    /// of the plan.
    pub(crate) fn of(
        sources: &[Source],
        plan: &CopyPlan,
        done: &Done,
        left: &LeftOut,
        meter: &Meter,
    ) -> Self {
        Self { extrapolated: extrapolated(sources, plan, done, left, meter) }
    }

    /// Returns it for people.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let Some(all) = &self.extrapolated else { return Vec::new() };
        let seconds = Duration::from_secs_f64(all.seconds.clamp(0.0, 1e9));
        let text = format!(
            "{} would take about {}, {} in {}",
            format::counted(all.arrays as u64, "array", "arrays"),
            format::duration(seconds),
            format::bytes(all.bytes_written),
            format::counted(all.objects_written, "object", "objects")
        );
        vec![("all of them".to_owned(), text)]
    }
}

fn extrapolated(
    sources: &[Source],
    plan: &CopyPlan,
    done: &Done,
    left: &LeftOut,
    meter: &Meter,
) -> Option<Extrapolated> {
    let copied: u64 =
        plan.arrays.iter().map(|array| array.stored.len().saturating_mul(array.decoded_chunk_bytes())).sum();
    let arrays = plan.arrays.len() + sources.iter().map(|source| source.left_out.len()).sum::<usize>();
    if sources.iter().all(|source| source.left_out.is_empty()) || copied == 0 {
        return None;
    }
    let stored: u64 = plan.arrays.iter().map(|array| array.stored_bytes).fold(0, u64::saturating_add);
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let scale = (copied + left.decoded_bytes) as f64 / copied as f64;
    // what compresses well in the source mostly does in the copy
    let written = u128::from(meter.bytes_written.get())
        * u128::from(stored.saturating_add(left.stored_bytes))
        / u128::from(stored.max(1));
    let (total, plan_seconds) = (done.total_time.as_secs_f64(), done.plan_time.as_secs_f64());
    Some(Extrapolated {
        arrays,
        seconds: plan_seconds + (total - plan_seconds) * scale,
        bytes_written: u64::try_from(written).unwrap_or(u64::MAX),
        objects_written: meter.objects_written.get().saturating_add(left.objects),
    })
}
