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

    /// Returns a `zkit recompress` in other chunks; `None` where the name of a dimension does not fit a command line.
    pub(crate) fn rechunk(
        &self,
        chunks: &[u64],
        shape: &[u64],
        names: Option<&[Option<String>]>,
    ) -> Option<String> {
        let parts = chunks.iter().zip(shape).enumerate().map(|(dimension, (&chunk, &length))| {
            let plain = |name: &str| {
                let word = name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
                word && name.parse::<u64>().is_err()
            };
            let name = match names.and_then(|names| names.get(dimension)).and_then(Option::as_deref) {
                Some(name) if plain(name) => name.to_owned(),
                Some(_) => return None,
                None => dimension.to_string(),
            };
            Some(if chunk >= length { format!("{name}=-1") } else { format!("{name}={chunk}") })
        });
        let parts: Vec<String> = parts.collect::<Option<_>>()?;
        Some(self.recompress(&format!("--chunks {}", parts.join(","))))
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
    fn dimensions_are_named_or_numbered() {
        let line = CommandLine::for_store("a.zarr");
        let names = [Some("time".to_owned()), Some("lat".to_owned())];
        let command = line.rechunk(&[100, 32], &[100, 721], Some(&names)).unwrap();
        assert_eq!(command, "zkit recompress a.zarr a-new.zarr --chunks time=-1,lat=32");
        assert_eq!(line.rechunk(&[1], &[2], Some(&[Some("a'b".into())])), None);
        let command = line.rechunk(&[1, 1], &[2, 2], Some(&[None, Some("x".into())])).unwrap();
        assert!(command.ends_with(" --chunks 0=1,x=1"), "{command}");
        assert!(line.rechunk(&[1], &[2], None).unwrap().ends_with(" --chunks 0=1"));
    }
}
