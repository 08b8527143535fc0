//! Python objects of Zarr v2: texts as labels, in JSON or in MessagePack. Source: numcodecs, `categorize`, `json2`, `msgpack2`.

use rmp::Marker;
use rmp::decode::{read_array_len, read_int, read_marker, read_str_len};

use super::error::CodecError;
use super::variable::VariableElements;
use crate::metadata::{Json, Number, ObjectCodec};

/// Stands for Python's `None` among texts: bytes that are no UTF-8, and so no text.
pub const NULL_TEXT: &[u8] = &[0xff];

/// Lists in lists that are followed.
const DEPTH_MOST: usize = 64;

/// Returns the `count` objects of a chunk, texts and nulls; others are `Unsupported`.
pub(super) fn decode(
    codec: &ObjectCodec,
    bytes: &[u8],
    count: usize,
) -> Result<VariableElements, CodecError> {
    let mut objects =
        Objects { codec: codec.name(), elements: VariableElements::default(), depth: None, count };
    let shape = match codec {
        ObjectCodec::Categorize { labels, stored } => return categories(labels, *stored, bytes, count),
        ObjectCodec::Json => objects.take_json(bytes)?,
        ObjectCodec::MsgPack => objects.take_msgpack(bytes)?,
    };
    objects.finish(&shape)
}

/// Returns the labels that a chunk of numbers stands for; 0, and what has no label, is the empty text.
fn categories(
    labels: &[String],
    stored: Number,
    bytes: &[u8],
    count: usize,
) -> Result<VariableElements, CodecError> {
    if Some(bytes.len()) != count.checked_mul(stored.bytes) {
        let message = format!("{} bytes for {count} elements of {} bytes", bytes.len(), stored.bytes);
        return Err(CodecError::corrupt("categorize", message));
    }
    let mut elements = VariableElements::default();
    for word in bytes.chunks_exact(stored.bytes.max(1)) {
        let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        let number = match stored.big_endian {
            true => word.iter().fold(0, add),
            false => word.iter().rev().fold(0, add),
        };
        let label = number.checked_sub(1).and_then(|at| labels.get(usize::try_from(at).ok()?));
        elements.push(label.map_or("", String::as_str).as_bytes());
    }
    Ok(elements)
}

/// Collects the objects of nested lists.
struct Objects {
    codec: &'static str,
    elements: VariableElements,
    /// How deep in lists the objects lie: all the same.
    depth: Option<usize>,
    count: usize,
}

impl Objects {
    fn corrupt(&self, what: impl Into<String>) -> CodecError {
        CodecError::corrupt(self.codec, what)
    }

    fn push(&mut self, element: &[u8], depth: usize) -> Result<(), CodecError> {
        if *self.depth.get_or_insert(depth) != depth {
            return Err(self.no_text("lists among other objects"));
        }
        if self.elements.len() == self.count {
            return Err(self.corrupt(format!("more than {} elements", self.count)));
        }
        self.elements.push(element);
        Ok(())
    }

    fn no_text(&self, what: &str) -> CodecError {
        let what = format!("found {what}: zkit reads objects that are texts");
        CodecError::Unsupported { codec: self.codec, what }
    }

    /// Takes `[object, ..., dtype, shape]`; returns the shape.
    fn take_json(&mut self, bytes: &[u8]) -> Result<Vec<u64>, CodecError> {
        let document =
            Json::parse(bytes).map_err(|error| self.corrupt(format!("it is not JSON: {error}")))?;
        let parts = document.as_array().unwrap_or_default();
        let [objects @ .., dtype, shape] = parts else { return Err(self.corrupt("no list with a shape")) };
        let shape: Option<Vec<u64>> =
            shape.as_array().and_then(|shape| shape.iter().map(Json::as_integer).collect());
        let (Some(_), Some(shape)) = (dtype.as_str(), shape) else {
            return Err(self.corrupt("no dtype and shape at its end"));
        };
        objects.iter().try_for_each(|object| self.take_json_object(object, 1))?;
        Ok(shape)
    }

    fn take_json_object(&mut self, object: &Json, depth: usize) -> Result<(), CodecError> {
        match object {
            Json::String(text) => self.push(text.as_bytes(), depth),
            Json::Null => self.push(NULL_TEXT, depth),
            Json::Array(objects) if depth < DEPTH_MOST => {
                objects.iter().try_for_each(|object| self.take_json_object(object, depth + 1))
            }
            Json::Array(_) => Err(self.no_text("lists in lists")),
            Json::Number(_) => Err(self.no_text("a number")),
            Json::Bool(_) => Err(self.no_text("a truth value")),
            Json::Object(_) => Err(self.no_text("a mapping")),
        }
    }

    /// Takes the same in MessagePack; nothing is built but the texts.
    fn take_msgpack(&mut self, mut bytes: &[u8]) -> Result<Vec<u64>, CodecError> {
        let rest = &mut bytes;
        let parts = read_array_len(rest).map_err(|_| self.corrupt("no list"))?;
        let objects = parts.checked_sub(2).ok_or_else(|| self.corrupt("no list with a shape"))?;
        for _ in 0..objects {
            self.take_msgpack_object(rest, 1)?;
        }
        let ending = |objects: &Self| objects.corrupt("no dtype and shape at its end");
        let dtype_bytes = read_str_len(rest).map_err(|_| ending(self))?;
        self.split(rest, dtype_bytes)?;
        let rank = read_array_len(rest).map_err(|_| ending(self))?;
        if rank as usize > DEPTH_MOST {
            return Err(ending(self));
        }
        (0..rank).map(|_| read_int(rest).map_err(|_| ending(self))).collect()
    }

    fn take_msgpack_object(&mut self, rest: &mut &[u8], depth: usize) -> Result<(), CodecError> {
        let marker = read_marker(rest).map_err(|_| self.corrupt("it ends early"))?;
        let length = |objects: &Self, rest: &mut &[u8], bytes: u32| -> Result<u32, CodecError> {
            let number = objects.split(rest, bytes)?;
            Ok(number.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
        };
        let length = match marker {
            Marker::Null => return self.push(NULL_TEXT, depth),
            Marker::FixStr(length) | Marker::FixArray(length) => u32::from(length),
            Marker::Str8 | Marker::Bin8 => length(self, rest, 1)?,
            Marker::Str16 | Marker::Bin16 | Marker::Array16 => length(self, rest, 2)?,
            Marker::Str32 | Marker::Bin32 | Marker::Array32 => length(self, rest, 4)?,
            Marker::True | Marker::False => return Err(self.no_text("a truth value")),
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => return Err(self.no_text("a mapping")),
            _ => return Err(self.no_text("a number or an extension")),
        };
        match marker {
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 if depth < DEPTH_MOST => {
                (0..length).try_for_each(|_| self.take_msgpack_object(rest, depth + 1))
            }
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => Err(self.no_text("lists in lists")),
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => Err(self.no_text("bytes")),
            _ => {
                let text = self.split(rest, length)?;
                match std::str::from_utf8(text) {
                    Ok(text) => self.push(text.as_bytes(), depth),
                    Err(_) => Err(self.corrupt("a text that is no UTF-8")),
                }
            }
        }
    }

    fn split<'b>(&self, rest: &mut &'b [u8], length: u32) -> Result<&'b [u8], CodecError> {
        let (taken, behind) =
            rest.split_at_checked(length as usize).ok_or_else(|| self.corrupt("it ends early"))?;
        *rest = behind;
        Ok(taken)
    }

    /// Compares what was found with the shape that stands behind it.
    fn finish(self, shape: &[u64]) -> Result<VariableElements, CodecError> {
        let depth = self.depth.unwrap_or(1);
        // what has no dimensions stands in a list of one
        if !self.elements.is_empty() && depth != shape.len().max(1) {
            return Err(self.no_text("lists as objects"));
        }
        if self.elements.len() != self.count {
            return Err(self.corrupt(format!("{} elements, {} expected", self.elements.len(), self.count)));
        }
        Ok(self.elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::NumberKind;

    fn texts(elements: &VariableElements) -> Vec<Option<&str>> {
        elements.iter().map(|element| std::str::from_utf8(element).ok()).collect()
    }

    /// `["a", None, "bc", "|O", [3]]`, as msgpack-python packs it.
    const PACKED: &[u8] = b"\x95\xa1a\xc0\xa2bc\xa2|O\x91\x03";

    #[test]
    fn texts_and_nulls_are_read() {
        let expected = [Some("a"), None, Some("bc")];
        let json = decode(&ObjectCodec::Json, br#"["a",null,"bc","|O",[3]]"#, 3).unwrap();
        assert_eq!(texts(&json), expected);
        assert_eq!(texts(&decode(&ObjectCodec::MsgPack, PACKED, 3).unwrap()), expected);
        let square = br#"[["a","b"],["c","d"],"|O",[2,2]]"#;
        assert_eq!(decode(&ObjectCodec::Json, square, 4).unwrap().len(), 4);
        assert_eq!(texts(&decode(&ObjectCodec::Json, br#"["a","|O",[]]"#, 1).unwrap()), [Some("a")]);
        let stored = Number { kind: NumberKind::Unsigned, bytes: 2, big_endian: true };
        let labels = ["x".to_owned(), "y".to_owned()].into();
        let categorize = ObjectCodec::Categorize { labels, stored };
        let found = decode(&categorize, &[0, 2, 0, 0, 0, 1, 9, 9], 4).unwrap();
        assert_eq!(texts(&found), [Some("y"), Some(""), Some("x"), Some("")]);
        assert!(decode(&categorize, &[0, 2, 0], 2).is_err());
    }

    #[test]
    fn objects_that_are_no_texts_are_not_taken_for_texts() {
        let cases: [&[u8]; 6] = [
            br#"[1,"a","|O",[2]]"#,
            br#"[["a"],["b"],"|O",[2]]"#,
            br#"[["a"],"b","|O",[2]]"#,
            br#"[{},"b","|O",[2]]"#,
            br#"[true,"b","|O",[2]]"#,
            br#"["a","b",["c"],"|O",[3]]"#,
        ];
        for text in cases {
            let error = decode(&ObjectCodec::Json, text, 2).unwrap_err();
            assert!(matches!(error, CodecError::Unsupported { .. } | CodecError::Corrupt { .. }), "{error}");
        }
        let error = decode(&ObjectCodec::MsgPack, b"\x94\x01\xa1a\xa2|O\x91\x02", 2).unwrap_err();
        assert!(matches!(error, CodecError::Unsupported { .. }), "{error}");
    }

    #[test]
    fn damage_is_told_and_no_panic() {
        for length in 0..PACKED.len() {
            assert!(decode(&ObjectCodec::MsgPack, &PACKED[..length], 3).is_err(), "{length}");
        }
        for (at, byte) in (0..PACKED.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
            let mut damaged = PACKED.to_vec();
            damaged[at] = byte;
            if let Ok(elements) = decode(&ObjectCodec::MsgPack, &damaged, 3) {
                assert_eq!(elements.len(), 3);
            }
        }
        let nested = vec![0x91; 1 << 20];
        assert!(decode(&ObjectCodec::MsgPack, &nested, 3).is_err());
        assert!(decode(&ObjectCodec::MsgPack, b"\xdd\xff\xff\xff\xff\xdd\xff\xff\xff\xff", 3).is_err());
    }
}
