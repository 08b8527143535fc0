//! Places of stores as URI references (RFC 3986), for formats that want those.

/// Returns the URI reference of a path or a URL: `file:///data/a.zarr`, `a%20b.zarr`, `s3://bucket/a.zarr`.
pub(crate) fn reference(place: &str) -> String {
    if let Some((scheme, rest)) = place.split_once("://")
        && is_scheme(scheme)
    {
        return format!("{scheme}://{}", escaped(rest, b"/?=&:@[]*"));
    }
    let path = escaped(place, b"/");
    match path.as_str() {
        "" => ".".into(),
        // `//host/x` would be a place on the network
        absolute if absolute.starts_with('/') => format!("file:///{}", absolute.trim_start_matches('/')),
        relative => relative.into(),
    }
}

/// Returns the reference of a node of a store: the store's, and the path of the node below it.
pub(crate) fn reference_of_node(store: &str, array: Option<&str>) -> String {
    let path = array.unwrap_or_default().trim_matches('/');
    if path.is_empty() || store.contains('?') {
        return reference(store);
    }
    reference(&format!("{}/{path}", store.trim_end_matches('/')))
}

/// Returns whether a URL may begin with it: a letter, then letters, digits, `+`, `-`, `.` (RFC 3986, 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Returns `text` with every byte but unreserved ones and those of `also` percent-encoded.
fn escaped(text: &str, also: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls_become_references() {
        let cases = [
            ("/data/a b.zarr", "file:///data/a%20b.zarr"),
            ("//evil.example/x", "file:///evil.example/x"),
            ("caches/a#1%.zarr", "caches/a%231%25.zarr"),
            ("c:x", "c%3Ax"),
            ("s3://bucket/a b.zarr", "s3://bucket/a%20b.zarr"),
            ("https://host:80/a.zarr?sig=***", "https://host:80/a.zarr?sig=***"),
            ("java script://x", "java%20script%3A//x"),
            ("", "."),
        ];
        for (place, expected) in cases {
            assert_eq!(reference(place), expected, "{place}");
        }
    }

    #[test]
    fn nodes_lie_below_their_store() {
        assert_eq!(reference_of_node("a.zarr/", Some("/surface/t2m")), "a.zarr/surface/t2m");
        assert_eq!(reference_of_node("a.zarr", Some("/")), "a.zarr");
        assert_eq!(reference_of_node("https://host/a?x=***", Some("/t")), "https://host/a?x=***");
    }
}
