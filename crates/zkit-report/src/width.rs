//! How many columns of a terminal a text takes, and padding and breaking by that measure.

/// Returns the columns that `text` takes; for text that went through [`crate::sanitize`].
pub(crate) fn display_width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char_width).sum() }
}

/// Returns the columns of one character: 2 for the wide forms of East Asian scripts and emoji, 0 for marks
/// that join the character before them, 1 for the rest. Ranges: Unicode Standard Annex 11, classes W and F.
fn char_width(character: char) -> usize {
    match u32::from(character) {
        0..0x300 => 1,
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f => 0,
        0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x200b..=0x200d | 0x20d0..=0x20ff => 0,
        0xfe00..=0xfe0f | 0xfe20..=0xfe2f | 0xfeff | 0xe0100..=0xe01ef => 0,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xa960..=0xa97c => 2,
        0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 => 2,
        0x1f300..=0x1f64f | 0x1f680..=0x1f6ff | 0x1f900..=0x1f9ff | 0x1fa70..=0x1faff => 2,
        0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Appends `count` spaces.
pub(crate) fn push_spaces(line: &mut String, count: usize) {
    line.extend(std::iter::repeat_n(' ', count));
}

/// Breaks `text` into lines of at most `width` columns, after a separator (`/ , _ - : space`) where one
/// stands in the last half of the line, else between any two characters.
pub(crate) fn break_anywhere(text: &str, width: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while display_width(rest) > width {
        let (line, next) = rest.split_at(break_point(rest, width));
        lines.push(line.trim_end());
        rest = next.trim_start();
    }
    lines.push(rest);
    lines
}

/// Returns the byte offset after which a line of `width` columns ends; at least one character.
fn break_point(text: &str, width: usize) -> usize {
    let (mut used, mut end, mut after_separator) = (0, 0, 0);
    for (offset, character) in text.char_indices() {
        used += char_width(character);
        if used > width && end > 0 {
            break;
        }
        end = offset + character.len_utf8();
        if matches!(character, '/' | ',' | '_' | '-' | ':' | ' ') && used * 2 >= width {
            after_separator = end;
        }
    }
    if after_separator > 0 { after_separator } else { end }
}

/// Breaks prose at spaces into lines of at most `width` columns; a longer word stands alone on its line.
pub(crate) fn break_at_spaces(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for word in text.split_whitespace() {
        let word_width = display_width(word);
        if !line.is_empty() && used + 1 + word_width > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if !line.is_empty() {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += word_width;
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wide_characters_count_twice_and_marks_not_at_all() {
        assert_eq!(display_width("abc"), 3);
        assert_eq!(display_width("\u{6c34}\u{6e29}"), 4);
        assert_eq!(display_width("e\u{301}"), 1);
    }

    #[test]
    fn breaks_paths_after_a_slash() {
        assert_eq!(break_anywhere("/surface/temperature", 12), ["/surface/", "temperature"]);
    }

    #[test]
    fn prose_breaks_at_spaces_only() {
        assert_eq!(break_at_spaces("one two three-and-four five", 9), ["one two", "three-and-four", "five"]);
    }

    proptest! {
        #[test]
        fn broken_lines_fit_and_lose_only_spaces(text in "[a-z/ _\u{6c34}]{0,60}", width in 2_usize..20) {
            let lines = break_anywhere(&text, width);
            for line in &lines {
                prop_assert!(display_width(line) <= width);
            }
            let strip = |text: &str| text.replace(' ', "");
            prop_assert_eq!(strip(&lines.concat()), strip(&text));
        }
    }
}
