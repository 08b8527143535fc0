//! Documents, values and reports, as the bytes that leave the program.

pub mod github;
pub mod html;
pub mod json;
pub mod junit;
pub mod sarif;
pub mod text;

mod charts;
mod svg;
mod tables;
mod uri;
