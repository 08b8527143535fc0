//! Makes text from stores safe to print: the one place where control characters are dealt with.

use std::borrow::Cow;

/// Returns `text` with every character that could steer a terminal shown as an escape: `\n`, `\u{1b}`.
///
/// These are the control characters (C0, DEL, C1), line and paragraph separators, and everything that changes
/// the direction of text (Unicode Technical Report 36, "bidirectional text spoofing"). Names in a store may
/// hold any of them.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(steers_terminal) else { return Cow::Borrowed(text) };
    let (harmless, rest) = text.split_at(first);
    let mut safe = String::with_capacity(text.len() + 16);
    safe.push_str(harmless);
    for character in rest.chars() {
        if steers_terminal(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// Returns whether a terminal would obey this character rather than draw it.
pub(crate) fn steers_terminal(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' // direction marks
        | '\u{2028}' | '\u{2029}' // line and paragraph separator
        | '\u{202a}'..='\u{202e}' // direction embeddings and overrides
        | '\u{2066}'..='\u{2069}' // direction isolates
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn harmless_text_is_borrowed() {
        assert!(matches!(sanitize("/température/\u{6c34}"), Cow::Borrowed("/température/\u{6c34}")));
    }

    #[test]
    fn shows_escape_sequences_instead_of_sending_them() {
        assert_eq!(sanitize("a\u{1b}[31mb\nc\u{9b}2J\u{7f}"), r"a\u{1b}[31mb\nc\u{9b}2J\u{7f}");
    }

    #[test]
    fn shows_direction_overrides() {
        assert_eq!(sanitize("abc\u{202e}txt\u{2066}\u{2069}"), r"abc\u{202e}txt\u{2066}\u{2069}");
    }

    proptest! {
        #[test]
        fn nothing_that_steers_survives(text in any::<String>()) {
            let safe = sanitize(&text).into_owned();
            prop_assert!(!safe.contains(steers_terminal));
            prop_assert_eq!(sanitize(&safe), safe.as_str());
        }
    }
}
