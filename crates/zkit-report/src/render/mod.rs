//! Documents and values, as the bytes that leave the program.

pub mod json;
pub mod text;

mod charts;
mod tables;
