//! Keys: paths inside a store, with `/` between names and none in front.

/// Returns whether a node or dimension name can be part of a key: not empty, `.`, `..` or with `/` or NUL in it.
pub fn is_safe_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0', '\\'])
}

/// Returns `prefix` and `name` as one key.
pub fn join(prefix: &str, name: &str) -> String {
    match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}/{name}"),
    }
}
