//! Plans: what a run will read, decode, encode and write, before it does any of it.
//!
//! Pure: a hierarchy, what a listing says of it, a wish and a budget go in, a [`CopyPlan`] comes out.

mod copy;

pub use copy::{ArrayCopy, CopyPlan, Stored, Strategy, Totals, Unit, Wish, plan_copy};
