//! Makes text from stores safe to print: the one place where control characters are dealt with.

use std::borrow::Cow;

/// Returns `text` with every character that could steer a terminal shown as an escape: `\n`, `\u{1b}`.
///
/// These are the control characters (C0, DEL, C1), line and paragraph separators, and everything that changes
/// the direction of text (Unicode Technical Report 36, "bidirectional text spoofing") or draws nothing, so that two
/// names look alike (general category Cf). Names in a store may hold any of them.
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

/// Returns whether a terminal would obey this character rather than draw it. Source: Unicode 16, `DerivedGeneralCategory.txt`,
/// categories Cc, Cf, Zl, Zp.
pub(crate) fn steers_terminal(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1f}'
        | '\u{7f}'..='\u{9f}'
        | '\u{ad}' // soft hyphen
        | '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}' // signs over numbers
        | '\u{61c}' | '\u{200e}' | '\u{200f}' // direction marks
        | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{feff}' // of no width
        | '\u{2028}' | '\u{2029}' // line and paragraph separator
        | '\u{202a}'..='\u{202e}' // direction embeddings and overrides
        | '\u{2060}'..='\u{2064}' // joiners and operators that draw nothing
        | '\u{2066}'..='\u{2069}' // direction isolates
        | '\u{206a}'..='\u{206f}' // forms of digits
        | '\u{fff9}'..='\u{fffb}' // annotations between lines
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}' // of scripts, music and tags
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

    #[test]
    fn shows_what_draws_nothing() {
        assert_eq!(sanitize("t\u{200b}2\u{feff}m\u{ad}\u{e0041}"), r"t\u{200b}2\u{feff}m\u{ad}\u{e0041}");
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
