//! Arrays that no source holds: names of points, and numbers that were converted. They lie in memory, one chunk each.

use zkit_core::error::{Error, ErrorKind, Result};
use zkit_core::hierarchy::ArrayNode;
use zkit_core::metadata::{ArrayMetadata, DataType, Json, Object, ZarrFormat};
use zkit_core::store::{MemoryStore, Store, join};

/// Arrays in memory.
#[derive(Debug, Default)]
pub(crate) struct Literals {
    objects: Vec<(String, Vec<u8>)>,
}

/// What a literal array is.
pub(crate) struct Literal<'a> {
    /// The path of the array that it stands for; messages name it.
    pub(crate) path: &'a str,
    pub(crate) format: ZarrFormat,
    pub(crate) shape: &'a [u64],
    pub(crate) dimension_names: &'a [String],
    pub(crate) data_type: &'a DataType,
    /// The `fill_value` of its document.
    pub(crate) fill_value: Json,
    pub(crate) attributes: Object,
    /// Its elements in the bytes of a chunk without compressor.
    pub(crate) bytes: Vec<u8>,
}

impl Literals {
    /// Adds an array, and returns it.
    pub(crate) fn add(&mut self, literal: Literal<'_>) -> Result<ArrayNode> {
        let path = format!("/{}{}", self.objects.len(), literal.path);
        let document = match literal.format {
            ZarrFormat::V2 => document_v2(&literal),
            ZarrFormat::V3 => document_v3(&literal),
        };
        let Some(document) = document else {
            let message = format!(
                "could not write `{}` anew as {} in {}",
                literal.path, literal.data_type, literal.format
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let mut defects = Vec::new();
        let parsed = match literal.format {
            ZarrFormat::V2 => {
                let mut attributes = literal.attributes;
                let names = literal.dimension_names.iter().map(Json::string).collect();
                attributes.set("_ARRAY_DIMENSIONS", Json::Array(names));
                ArrayMetadata::parse_v2(&path, document, attributes, &mut defects)
            }
            ZarrFormat::V3 => ArrayMetadata::parse_v3(&path, document, &mut defects),
        };
        let metadata = parsed.map_err(|defect| Error::new(ErrorKind::Unsupported, defect.message))?;
        let mut key = String::new();
        metadata.chunk_keys.push_key(&vec![0; literal.shape.len()], &mut key);
        self.objects.push((join(path.trim_start_matches('/'), &key), literal.bytes));
        Ok(ArrayNode { path, metadata })
    }

    /// Returns the store that the arrays lie in.
    pub(crate) fn into_store(self) -> Store {
        Store::Memory(MemoryStore::new(self.objects))
    }
}

fn document_v2(literal: &Literal<'_>) -> Option<Object> {
    let (dtype, filters) = match literal.data_type {
        DataType::String => {
            let filter = Object::from_iter([("id", Json::string("vlen-utf8"))]);
            (Json::string("|O"), Json::Array(vec![filter.into()]))
        }
        data_type => (data_type.to_v2()?, Json::Null),
    };
    Some(Object::from_iter([
        ("zarr_format", Json::number(2)),
        ("shape", lengths(literal.shape.iter().copied())),
        ("chunks", lengths(literal.shape.iter().map(|&length| length.max(1)))),
        ("dtype", dtype),
        ("fill_value", literal.fill_value.clone()),
        ("order", Json::string("C")),
        ("filters", filters),
        ("compressor", Json::Null),
    ]))
}

fn document_v3(literal: &Literal<'_>) -> Option<Object> {
    let codec = match literal.data_type {
        DataType::String => Object::from_iter([("name", Json::string("vlen-utf8"))]),
        _ => {
            let little = Object::from_iter([("endian", Json::string("little"))]);
            Object::from_iter([("name", Json::string("bytes")), ("configuration", little.into())])
        }
    };
    let chunk_shape = lengths(literal.shape.iter().map(|&length| length.max(1)));
    let grid = Object::from_iter([
        ("name", Json::string("regular")),
        ("configuration", Object::from_iter([("chunk_shape", chunk_shape)]).into()),
    ]);
    let keys = Object::from_iter([("name", Json::string("default"))]);
    let names = literal.dimension_names.iter().map(Json::string).collect();
    Some(Object::from_iter([
        ("zarr_format", Json::number(3)),
        ("node_type", Json::string("array")),
        ("shape", lengths(literal.shape.iter().copied())),
        ("data_type", literal.data_type.to_v3()?),
        ("chunk_grid", grid.into()),
        ("chunk_key_encoding", keys.into()),
        ("fill_value", literal.fill_value.clone()),
        ("codecs", Json::Array(vec![codec.into()])),
        ("attributes", literal.attributes.clone().into()),
        ("dimension_names", Json::Array(names)),
    ]))
}

fn lengths(lengths: impl Iterator<Item = u64>) -> Json {
    Json::Array(lengths.map(Json::number).collect())
}

/// Returns texts as the codec `vlen-utf8` holds them. Source: numcodecs, vlen.
pub(crate) fn texts<'a>(texts: impl ExactSizeIterator<Item = &'a str>) -> Result<Vec<u8>> {
    let too_long = || Error::new(ErrorKind::Unsupported, "could not write a text of more than 4 GiB");
    let length = |length: usize| u32::try_from(length).map_err(|_| too_long());
    let mut bytes = length(texts.len())?.to_le_bytes().to_vec();
    for text in texts {
        bytes.extend(length(text.len())?.to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read_texts;

    #[test]
    fn texts_are_read_back_in_either_format() {
        for format in [ZarrFormat::V2, ZarrFormat::V3] {
            for (shape, names) in [(&[2u64][..], &["Kew", "Ås"][..]), (&[], &["one"])] {
                let mut literals = Literals::default();
                let node = literals
                    .add(Literal {
                        path: "/point",
                        format,
                        shape,
                        dimension_names: &["point".to_owned()][..shape.len()],
                        data_type: &DataType::String,
                        fill_value: Json::string(""),
                        attributes: Object::default(),
                        bytes: texts(names.iter().copied()).unwrap(),
                    })
                    .unwrap();
                assert_eq!(read_texts(&literals.into_store(), &node), names, "{format}");
            }
        }
    }
}
