//! What `zkit recompress` says: the plan, or what was done.

mod arrays;
mod done;
mod plan;
mod stages;

pub(crate) use done::{emit_already_done, emit_done};
pub(crate) use plan::emit_plan;
