//! What metadata say of elements: how they are scanned, and which of them are missing values.

use crate::kernels::scan::{ElementKind, Scanner, Statistics};
use crate::metadata::{ArrayMetadata, CodecSpec, DataType, FillValue, Json, ZarrFormat};
use crate::units::saturating_usize;

/// Returns how elements of a type are scanned; `None` where they have no fixed size.
pub(super) fn element_kind(data_type: &DataType) -> Option<ElementKind> {
    Some(match data_type {
        DataType::Bool => ElementKind::Unsigned(1),
        DataType::Int(bytes) => ElementKind::Signed(*bytes),
        DataType::UInt(bytes) => ElementKind::Unsigned(*bytes),
        DataType::Float(bytes) => ElementKind::Float(*bytes),
        DataType::Complex(bytes) => ElementKind::Complex(bytes / 2),
        DataType::Time { .. } => ElementKind::Time,
        DataType::Extension { name, .. } if name == "bfloat16" => ElementKind::BFloat16,
        other => ElementKind::Opaque(saturating_usize(other.item_bytes()?)),
    })
}

/// Returns whether the elements of an array are strings of UTF-8, which readers refuse to decode where they are not.
/// Source: the `vlen-utf8` codec of zarr-extensions.
pub(super) fn holds_text(metadata: &ArrayMetadata) -> bool {
    let codecs = metadata.sharding().map_or(&metadata.codecs, |sharding| &sharding.codecs);
    codecs.contains(&CodecSpec::VlenUtf8)
}

/// Returns the elements that stand for a missing value: the attributes `_FillValue` and `missing_value`, and v2's fill
/// value unless it is zero, which is what writers put who mean nothing by it. Source: CF conventions, section 2.5.1.
pub(super) fn missing_values(metadata: &ArrayMetadata, kind: ElementKind) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    for name in ["_FillValue", "missing_value"] {
        let attribute = metadata.attributes.get(name);
        let listed =
            attribute.and_then(Json::as_array).unwrap_or(attribute.map_or(&[], std::slice::from_ref));
        values.extend(listed.iter().filter_map(|json| metadata.data_type.element(json)));
    }
    if let (ZarrFormat::V2, FillValue::Item(fill)) = (metadata.format, &metadata.fill_value)
        && fill.iter().any(|&byte| byte != 0)
    {
        values.push(fill.clone());
    }
    // NaN is counted as such
    values.retain(|value| {
        let mut statistics = Statistics::default();
        Scanner::new(kind, None, &[]).scan(value, &mut statistics);
        statistics.nan == 0
    });
    values.sort_unstable();
    values.dedup();
    values
}
