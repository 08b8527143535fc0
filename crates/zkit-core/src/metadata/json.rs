//! JSON as Zarr stores really hold it: key order and number texts are kept, bare `NaN` and `Infinity` are
//! tolerated (Python writes them), depth and size are bounded.
//!
//! `serde_json` cannot serve here: it refuses bare `NaN`, rounds large numbers unless a feature is switched on
//! that changes every other crate in the build, and attributes must survive a copy as they were.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

/// Nesting beyond this is refused: Python's own reader gives up at about 1,000.
const MAX_DEPTH: u32 = 512;
/// More values than this in one document are refused (a `.zmetadata` of 3,930 arrays holds about 100,000).
const MAX_VALUES: usize = 4_000_000;
/// The same of the document of one node.
const MAX_NODE_VALUES: usize = 1_000_000;

/// A JSON value that is written back as it was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as its text; also `NaN`, `Infinity` and `-Infinity`.
    Number(Box<str>),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

/// A JSON object in the order of its document; clones share their entries until one of them is changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object(Arc<Vec<(String, Json)>>);

impl Object {
    /// Returns the value of `key`; the last one wins where a document repeats a key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Sets `key`, in its place if it was there, else at the end.
    pub fn set(&mut self, key: &str, value: Json) {
        let entries = Arc::make_mut(&mut self.0);
        match entries.iter_mut().rev().find(|(name, _)| name == key) {
            Some(entry) => entry.1 = value,
            None => entries.push((key.to_owned(), value)),
        }
    }

    /// Removes every entry of `key` and returns the one that counted.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let last = self.0.iter().rposition(|(name, _)| name == key)?;
        let entries = Arc::make_mut(&mut self.0);
        let (_, value) = entries.remove(last);
        entries.retain(|(name, _)| name != key);
        Some(value)
    }

    /// Takes the value of `key` out, leaving `null` in its place.
    pub fn take(&mut self, key: &str) -> Option<Json> {
        let last = self.0.iter().rposition(|(name, _)| name == key)?;
        Some(std::mem::replace(&mut Arc::make_mut(&mut self.0)[last].1, Json::Null))
    }

    /// Appends an entry without looking for an earlier one.
    pub fn push(&mut self, key: impl Into<String>, value: Json) {
        Arc::make_mut(&mut self.0).push((key.into(), value));
    }

    /// Returns the entries in document order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for Object {
    type Item = (String, Json);
    type IntoIter = std::vec::IntoIter<(String, Json)>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter()
    }
}

impl<K: Into<String>> FromIterator<(K, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, Json)>>(entries: I) -> Self {
        Self(Arc::new(entries.into_iter().map(|(key, value)| (key.into(), value)).collect()))
    }
}

impl Json {
    /// Parses a document; errors say at which byte and why.
    pub fn parse(text: &[u8]) -> Result<Self, JsonError> {
        Self::parse_within(text, MAX_VALUES)
    }

    /// Parses a document that speaks of one node, which holds fewer values than one of all nodes may.
    pub fn parse_node(text: &[u8]) -> Result<Self, JsonError> {
        Self::parse_within(text, MAX_NODE_VALUES)
    }

    fn parse_within(text: &[u8], values_most: usize) -> Result<Self, JsonError> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut parser = Parser { text, at: 0, values_left: values_most, objects: HashMap::new() };
        let value = parser.value(0)?;
        parser.space();
        if parser.at < text.len() {
            return Err(parser.error("the document goes on after its end"));
        }
        Ok(value)
    }

    /// Returns a number.
    pub fn number(value: impl fmt::Display) -> Self {
        Self::Number(value.to_string().into())
    }

    /// Returns a string.
    pub fn string(value: impl Into<String>) -> Self {
        Self::String(value.into())
    }

    /// Returns whether it, or a value in it, is a number that only Python's JSON has: `NaN` or an infinity.
    pub fn holds_bare_nan(&self) -> bool {
        match self {
            Self::Number(text) => text.ends_with(['N', 'y']),
            Self::Array(values) => values.iter().any(Self::holds_bare_nan),
            Self::Object(object) => object.iter().any(|(_, value)| value.holds_bare_nan()),
            Self::Null | Self::Bool(_) | Self::String(_) => false,
        }
    }

    /// Returns the object, if this is one.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(values) => Some(values),
            _ => None,
        }
    }

    /// Returns the text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the value, if this is a whole number that fits; `5.0` is not one.
    pub fn as_integer<T: std::str::FromStr>(&self) -> Option<T> {
        match self {
            Self::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the value as the nearest `f64`, if this is a number (`NaN` and infinities included).
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(text) => number_f64(text),
            _ => None,
        }
    }

    /// Returns the entry `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// Returns this value for output that must be valid JSON: bare `NaN` becomes `"NaN"`.
    pub fn to_serde(&self) -> serde_json::Value {
        use serde_json::Value;
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(text) => serde_json::from_str::<serde_json::Number>(text)
                .map_or_else(|_| Value::String(text.to_string()), Value::Number),
            Self::String(text) => Value::String(text.clone()),
            Self::Array(values) => Value::Array(values.iter().map(Self::to_serde).collect()),
            Self::Object(object) => {
                Value::Object(object.iter().map(|(key, value)| (key.to_owned(), value.to_serde())).collect())
            }
        }
    }

    /// Returns the document as Zarr's own tools write it: indented by two spaces.
    pub fn to_pretty(&self) -> String {
        let mut text = String::new();
        write_value(self, Some(0), &mut text);
        text
    }
}

fn number_f64(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok(),
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::number(number),
            Value::String(text) => Self::string(text.as_str()),
            Value::Array(values) => Self::Array(values.iter().map(Self::from).collect()),
            Value::Object(map) => {
                Self::Object(map.iter().map(|(key, value)| (key.clone(), Self::from(value))).collect())
            }
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_value(self, None, &mut text);
        f.write_str(&text)
    }
}

/// Appends `value`; `indent` is the depth of a pretty document, or `None` for one line.
fn write_value(value: &Json, indent: Option<usize>, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Number(text) => out.push_str(text),
        Json::String(text) => write_string(text, out),
        Json::Array(values) => {
            let inner = indent.map(|depth| depth + 1);
            out.push('[');
            for (position, value) in values.iter().enumerate() {
                separate(position, inner, out);
                write_value(value, inner, out);
            }
            close(values.is_empty(), indent, ']', out);
        }
        Json::Object(object) => {
            let inner = indent.map(|depth| depth + 1);
            out.push('{');
            for (position, (key, value)) in object.iter().enumerate() {
                separate(position, inner, out);
                write_string(key, out);
                out.push_str(if indent.is_some() { ": " } else { ":" });
                write_value(value, inner, out);
            }
            close(object.is_empty(), indent, '}', out);
        }
    }
}

fn separate(position: usize, indent: Option<usize>, out: &mut String) {
    if position > 0 {
        out.push(',');
    }
    new_line(indent, out);
}

fn close(empty: bool, indent: Option<usize>, bracket: char, out: &mut String) {
    if !empty {
        new_line(indent, out);
    }
    out.push(bracket);
}

fn new_line(indent: Option<usize>, out: &mut String) {
    if let Some(depth) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', 2 * depth));
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Why a document is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {what}")]
pub struct JsonError {
    /// The byte offset at which the parser stopped.
    pub at: usize,
    /// What was wrong there.
    pub what: &'static str,
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    values_left: usize,
    /// Objects by a hash of their text, with that: the documents of a hundred thousand nodes are mostly those of a few.
    objects: HashMap<u64, (&'a [u8], Object)>,
}

/// Texts of objects that are looked up among those before, in bytes: shorter ones take little, longer ones are rarely the same.
const SHARED_TEXT: std::ops::RangeInclusive<usize> = 32..=4096;

impl Parser<'_> {
    /// Returns an object whose text began at `start` and ends here; one of the same text that was there before, if there is.
    fn shared(&mut self, start: usize, mut entries: Vec<(String, Json)>) -> Object {
        entries.shrink_to_fit();
        let object = Object(Arc::new(entries));
        let text = &self.text[start..self.at];
        if !SHARED_TEXT.contains(&text.len()) {
            return object;
        }
        let (same, first) = self.objects.entry(xxh3_64(text)).or_insert_with(|| (text, object.clone()));
        if *same == text { first.clone() } else { object }
    }

    fn error(&self, what: &'static str) -> JsonError {
        JsonError { at: self.at, what }
    }

    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: u32) -> Result<Json, JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested more than 512 levels deep"));
        }
        let Some(values_left) = self.values_left.checked_sub(1) else {
            return Err(self.error("more values than such a document may hold"));
        };
        self.values_left = values_left;
        self.space();
        match self.text.get(self.at) {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => self.number(),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) => Err(self.error("expected a JSON value")),
            None => Err(self.error("the document ends early")),
        }
    }

    fn word(&mut self, word: &'static str, value: Json) -> Result<Json, JsonError> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error("expected a JSON value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn object(&mut self, depth: u32) -> Result<Json, JsonError> {
        let mut entries = Vec::new();
        let start = self.at;
        self.at += 1;
        self.space();
        if self.text.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(Json::Object(Object::default()));
        }
        loop {
            self.space();
            if self.text.get(self.at) != Some(&b'"') {
                return Err(self.error("expected a key in quotes"));
            }
            let key = self.string()?;
            self.space();
            if self.text.get(self.at) != Some(&b':') {
                return Err(self.error("expected `:`"));
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            entries.push((key, value));
            if self.next_or_end(b'}')? {
                return Ok(Json::Object(self.shared(start, entries)));
            }
        }
    }

    fn array(&mut self, depth: u32) -> Result<Json, JsonError> {
        let mut values = Vec::new();
        self.at += 1;
        self.space();
        if self.text.get(self.at) == Some(&b']') {
            self.at += 1;
            return Ok(Json::Array(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            if self.next_or_end(b']')? {
                values.shrink_to_fit();
                return Ok(Json::Array(values));
            }
        }
    }

    /// Steps over `,` (false) or `end` (true).
    fn next_or_end(&mut self, end: u8) -> Result<bool, JsonError> {
        self.space();
        let found = self.text.get(self.at).copied();
        self.at += 1;
        match found {
            Some(b',') => Ok(false),
            Some(byte) if byte == end => Ok(true),
            _ => {
                self.at -= 1;
                Err(self.error("expected `,` or the end of the list"))
            }
        }
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        for word in ["NaN", "Infinity", "-Infinity"] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(Json::Number(word.into()));
            }
        }
        let start = self.at;
        while matches!(self.text.get(self.at), Some(b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).ok();
        match text.filter(|text| is_number(text)) {
            Some(text) => Ok(Json::Number(text.into())),
            None => {
                self.at = start;
                Err(self.error("not a number"))
            }
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        // nearly all strings have no escape: one exact allocation
        let plain = self.text[self.at..].iter().position(|&byte| byte == b'"' || byte == b'\\').unwrap_or(0);
        if self.text.get(self.at + plain) == Some(&b'"') {
            let text = std::str::from_utf8(&self.text[self.at..self.at + plain])
                .map_err(|_| self.error("a string is not UTF-8"))?;
            self.at += plain + 1;
            return Ok(text.to_owned());
        }
        let mut bytes = Vec::new();
        loop {
            let run =
                self.text[self.at..].iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20);
            let Some(run) = run else {
                self.at = self.text.len();
                return Err(self.error("a string has no end"));
            };
            bytes.extend_from_slice(&self.text[self.at..self.at + run]);
            self.at += run;
            match self.text[self.at] {
                b'"' => break,
                b'\\' => self.escape(&mut bytes)?,
                // Python's parser in its lenient mode and old writers let raw control characters through
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        String::from_utf8(bytes).map_err(|_| self.error("a string is not UTF-8"))
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), JsonError> {
        let byte = match self.text.get(self.at + 1) {
            Some(b'"') => b'"',
            Some(b'\\') => b'\\',
            Some(b'/') => b'/',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let c = self.unicode_escape()?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.error("unknown escape in a string")),
        };
        bytes.push(byte);
        self.at += 2;
        Ok(())
    }

    /// Reads `\uXXXX` or a surrogate pair of them.
    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let high = self.hex4()?;
        if !(0xd800..0xe000).contains(&high) {
            return char::from_u32(high).ok_or_else(|| self.error("not a character"));
        }
        if high >= 0xdc00 || !self.text[self.at..].starts_with(b"\\u") {
            return Err(self.error("half of a surrogate pair"));
        }
        let low = self.hex4()?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(self.error("half of a surrogate pair"));
        }
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
            .ok_or_else(|| self.error("not a character"))
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let digits =
            self.text.get(self.at + 2..self.at + 6).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match value {
            Some(value) => {
                self.at += 6;
                Ok(value)
            }
            None => Err(self.error("expected four hexadecimal digits")),
        }
    }
}

/// Returns whether `text` is a number of RFC 8259 (leading zeros, as some writers have them, are let through).
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_key_order_number_texts_and_bare_nan() {
        let text = r#"{"z":1.50,"a":[NaN,-Infinity,123456789012345678901234567890,-0.0,1e400],"é\n":"\ud83d\ude00"}"#;
        let json = Json::parse(text.as_bytes()).unwrap();
        assert_eq!(json.to_string(), text.replace("\\ud83d\\ude00", "😀"));
        assert_eq!(Json::parse(json.to_pretty().as_bytes()).unwrap(), json);
    }

    #[test]
    fn equal_objects_of_a_document_share_their_entries_until_one_is_changed() {
        let text = br#"{"a":{"shape":[1,2,3],"data_type":"int8"},"b":{"shape":[1,2,3],"data_type":"int8"}}"#;
        let document = Json::parse(text).unwrap();
        let of = |name: &str| document.get(name).and_then(Json::as_object).unwrap().clone();
        let (a, mut b) = (of("a"), of("b"));
        assert!(Arc::ptr_eq(&a.0, &b.0));
        b.set("shape", Json::Null);
        assert_eq!(a, of("b"));
        assert_eq!(b.get("shape"), Some(&Json::Null));
        assert_eq!(document.to_string().len(), text.len());
    }

    #[test]
    fn last_of_repeated_keys_wins() {
        let json = Json::parse(br#"{"a":1,"a":2}"#).unwrap();
        assert_eq!(json.get("a").and_then(Json::as_integer::<u64>), Some(2));
    }

    #[test]
    fn refuses_broken_documents_without_panicking() {
        for text in [
            "",
            "{",
            "[1,",
            "\"a",
            "\"\\u12",
            "\"\\ud800\"",
            "{\"a\" 1}",
            "01x",
            "1 2",
            "-",
            "nul",
            "[1 2]",
            "1e",
        ] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_document_of_one_node_holds_fewer_values_than_one_of_all() {
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 1));
        assert!(Json::parse_node(list(MAX_NODE_VALUES - 1).as_bytes()).is_ok());
        let text = list(MAX_NODE_VALUES);
        let refused = Json::parse_node(text.as_bytes()).unwrap_err();
        assert_eq!(refused.what, "more values than such a document may hold");
        assert!(Json::parse(text.as_bytes()).is_ok());
    }

    #[test]
    fn refuses_deep_nesting() {
        let text = "[".repeat(100_000);
        assert_eq!(Json::parse(text.as_bytes()).unwrap_err().what, "nested more than 512 levels deep");
    }
}
