//! How much names resemble each other, for messages that suggest one.

/// Returns how many insertions, deletions and replacements turn one text into the other (Levenshtein).
///
/// ```
/// assert_eq!(zkit_report::edits("kitten", "sitting"), 3);
/// ```
pub fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, character) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (column, &candidate) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(character != candidate);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (one, other, expected) in
            [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("t2m", "t2m", 0)]
        {
            assert_eq!(edits(one, other), expected, "{one} {other}");
        }
    }
}
