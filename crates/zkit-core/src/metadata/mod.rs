//! Zarr metadata, v2 and v3, as a lossless model: parsing gives a value and [`Defect`]s, and one bad node never
//! hides the others.

mod array;
mod codec_faults;
mod codec_spec;
mod compressor;
mod convert;
mod data_type;
mod data_type_parse;
mod defect;
mod dimensions;
mod fill;
mod gathered;
mod json;
mod layout;

pub use array::{ArrayMetadata, ChunkKeys, ZarrFormat};
pub use codec_spec::{
    BloscShuffle, BloscSpec, Checksum, ChecksumPlace, CodecSpec, Filter, LzmaSpec, Number, NumberKind,
    ObjectCodec, ShardingSpec,
};
pub use compressor::TargetCodec;
pub(crate) use compressor::shuffle_for;
pub use convert::{AbsentChunks, ChecksumChoice, Conversion, Target, convert, group_documents};
pub use data_type::{DataType, Field, Swap, TimeKind};
pub use defect::{Defect, Loss};
pub use fill::FillValue;
pub use json::{Json, JsonError, Object};
pub use layout::Layout;
