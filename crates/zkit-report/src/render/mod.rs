//! Documents, values and reports, as the bytes that leave the program.

pub mod github;
pub mod json;
pub mod junit;
pub mod sarif;
pub mod text;

mod charts;
mod tables;
mod uri;
