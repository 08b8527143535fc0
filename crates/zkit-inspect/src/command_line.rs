//! Command lines that the reader can paste.

/// The words of a command about one store, quoted for a shell.
#[derive(Debug, Clone)]
pub(crate) struct CommandLine {
    source: String,
    destination: String,
}

impl CommandLine {
    /// Returns the words for a store; the destination is a new name beside it, or here where the store is remote.
    pub(crate) fn for_store(url: &str) -> Self {
        let trimmed = url.trim_end_matches('/');
        let stem = trimmed.strip_suffix(".zarr").unwrap_or(trimmed);
        let stem = if url.contains("://") { stem.rsplit('/').next().unwrap_or(stem) } else { stem };
        Self { source: quoted(url), destination: quoted(&format!("{stem}-new.zarr")) }
    }

    /// Returns a `zkit recompress` of the whole store.
    pub(crate) fn recompress(&self, options: &str) -> String {
        format!("zkit recompress {} {} {options}", self.source, self.destination)
    }

    /// Returns the command that writes a copy in other chunks, bits unchanged; `None` where a dimension that is cut
    /// has no name, or one that does not fit a command line. It needs xarray and dask.
    pub(crate) fn rechunk(
        &self,
        chunks: &[u64],
        shape: &[u64],
        names: Option<&[Option<String>]>,
    ) -> Option<String> {
        let names = names?;
        let parts = chunks.iter().zip(shape).zip(names).map(|((&chunk, &length), name)| {
            let plain = |name: &&str| name.chars().all(|c| c.is_alphanumeric() || "_- .".contains(c));
            let name = name.as_deref().filter(plain)?;
            Some(if chunk >= length { format!("\"{name}\": -1") } else { format!("\"{name}\": {chunk}") })
        });
        let parts: Vec<String> = parts.collect::<Option<_>>()?;
        let script = format!(
            "import sys, xarray; xarray.open_zarr(sys.argv[1], decode_cf=False).drop_encoding().chunk({{{}}})\
             .to_zarr(sys.argv[2], mode=\"w-\")",
            parts.join(", ")
        );
        Some(format!("python -c '{script}' {} {}", self.source, self.destination))
    }

    /// Returns the command that consolidates the metadata in place.
    pub(crate) fn consolidate(&self) -> String {
        format!("python -c 'import sys, zarr; zarr.consolidate_metadata(sys.argv[1])' {}", self.source)
    }
}

/// Returns a word as a POSIX shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=,+@%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell_are_quoted() {
        assert_eq!(quoted("/data/a.zarr"), "/data/a.zarr");
        assert_eq!(quoted("a b; rm -rf 'x'"), r"'a b; rm -rf '\''x'\'''");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn destinations_stand_beside_their_source_or_here() {
        let command = CommandLine::for_store("/data/a.zarr/").recompress("--codec zstd:3");
        assert_eq!(command, "zkit recompress /data/a.zarr/ /data/a-new.zarr --codec zstd:3");
        let command = CommandLine::for_store("s3://bucket/x/a.zarr").recompress("--codec zstd:3");
        assert_eq!(command, "zkit recompress s3://bucket/x/a.zarr a-new.zarr --codec zstd:3");
    }

    #[test]
    fn only_named_dimensions_can_be_rechunked() {
        let line = CommandLine::for_store("a.zarr");
        let names = [Some("time".to_owned()), Some("lat".to_owned())];
        let command = line.rechunk(&[100, 32], &[100, 721], Some(&names)).unwrap();
        assert!(
            command.contains(r#".chunk({"time": -1, "lat": 32})"#)
                && command.ends_with("' a.zarr a-new.zarr"),
            "{command}"
        );
        assert_eq!(line.rechunk(&[1], &[2], Some(&[Some("a'b".into())])), None);
        assert_eq!(line.rechunk(&[1, 1], &[2, 2], Some(&[None, Some("x".into())])), None);
        assert_eq!(line.rechunk(&[1], &[2], None), None);
    }
}
