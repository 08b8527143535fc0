//! Work over chunks: running a plan, digesting arrays, surveying what is stored.

mod survey;

pub use survey::{ArraySurvey, SurveyDepth, survey};
