//! Values for programs: indented JSON that is safe to show on a terminal, too.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::sanitize::steers_terminal;

/// Writes a value as indented JSON and a newline.
///
/// Characters that a terminal would obey are written as JSON escapes (`\u009b`), which readers turn back.
pub fn write(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    // a buffer of its own: serde_json writes a few bytes at a time, and `out` may be a trait object
    let mut out = BufWriter::with_capacity(1 << 16, out);
    value.serialize(&mut Serializer::with_formatter(&mut out, Safe(PrettyFormatter::new())))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Indents as serde_json does, and escapes more characters than JSON asks for.
struct Safe(PrettyFormatter<'static>);

impl Formatter for Safe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // nearly all text is plain ASCII, which needs no look at each character
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(position) = rest.find(steers_terminal) {
            let (harmless, from) = rest.split_at(position);
            out.write_all(harmless.as_bytes())?;
            let mut characters = from.chars();
            for character in characters.by_ref().take(1) {
                write!(out, "\\u{:04x}", u32::from(character))?;
            }
            rest = characters.as_str();
        }
        out.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn written(value: &impl Serialize) -> String {
        let mut out = Vec::new();
        write(&mut out, value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn indents_and_ends_with_a_newline() {
        let value = json!({"schema_version": 1, "arrays": [], "shape": [2, 3]});
        assert_eq!(written(&value), format!("{}\n", serde_json::to_string_pretty(&value).unwrap()));
    }

    #[test]
    fn escapes_what_a_terminal_would_obey() {
        assert_eq!(written(&"a\u{9b}2J\u{202e}\u{1b}"), "\"a\\u009b2J\\u202e\\u001b\"\n");
    }

    proptest! {
        #[test]
        fn readers_get_every_text_back(text in any::<String>()) {
            let document = written(&text);
            prop_assert!(!document.trim_end().contains(steers_terminal));
            prop_assert_eq!(serde_json::from_str::<Value>(&document).unwrap(), Value::String(text));
        }
    }
}
