//! What is said of stores that are written: the plan, or what was done.

mod arrays;
mod done;
mod left_out;
mod own;
mod plan;
mod stages;

pub use done::{emit_already_done, emit_done};
pub use own::{NoFields, Own};
pub use plan::emit_plan;
