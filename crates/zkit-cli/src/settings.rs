//! `zkit.toml`: finding it, reading it, and saying where it errs.

use std::path::Path;

use serde::de::DeserializeOwned;
use zkit_core::error::{Error, ErrorKind};

use crate::Shell;

/// The file that is read where none is named.
const DEFAULT_FILE: &str = "zkit.toml";
/// Larger files are none of settings.
const MOST_BYTES: u64 = 1 << 20;

/// Reads the named file, else `zkit.toml` in the working directory, if it exists; says on stderr which file is used.
///
/// Fails with kind `Absent` or `Unreadable`, or `Usage` where it says what zkit does not know: file, line, expected and
/// found are named.
pub fn find<File: DeserializeOwned + Default>(named: Option<&Path>, shell: &Shell) -> Result<File, Error> {
    let (file, path) = read(named)?;
    if let Some(path) = path {
        shell.note(&format!("settings from {}", path.display()));
    }
    Ok(file)
}

/// Reads the named file, else the one that is looked for; returns also which one there was.
fn read<File: DeserializeOwned + Default>(named: Option<&Path>) -> Result<(File, Option<&Path>), Error> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    match load(path) {
        Err(error) if named.is_none() && error.kind() == ErrorKind::Absent => Ok((File::default(), None)),
        other => Ok((other?, Some(path))),
    }
}

fn load<File: DeserializeOwned>(path: &Path) -> Result<File, Error> {
    let failed = |kind, error| {
        Error::new(kind, format!("could not read settings from {}", path.display())).with_source(error)
    };
    let read = std::fs::metadata(path).and_then(|metadata| match metadata.len() {
        ..=MOST_BYTES => std::fs::read_to_string(path),
        _ => Err(std::io::Error::other("it is larger than 1 MiB")),
    });
    let text = read.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => failed(ErrorKind::Absent, error),
        _ => failed(ErrorKind::Unreadable, error),
    })?;
    parse(&text, path)
}

/// Parses the text of a file; `path` names it in errors.
pub fn parse<File: DeserializeOwned>(text: &str, path: &Path) -> Result<File, Error> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let message =
            format!("could not understand line {line} of {}: {}", path.display(), error.message().trim_end());
        Error::new(ErrorKind::Usage, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Anything = toml::Table;

    #[test]
    fn a_named_file_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        assert_eq!(read::<Anything>(Some(&path)).unwrap_err().kind(), ErrorKind::Absent);
        std::fs::write(&path, "[audit]\n").unwrap();
        let (file, used) = read::<Anything>(Some(&path)).unwrap();
        assert!(file.contains_key("audit") && used == Some(path.as_path()));
        assert_eq!(read::<Anything>(Some(folder.path())).unwrap_err().kind(), ErrorKind::Unreadable);
        std::fs::File::create(&path).unwrap().set_len(MOST_BYTES + 1).unwrap();
        assert_eq!(read::<Anything>(Some(&path)).unwrap_err().kind(), ErrorKind::Unreadable);
    }
}
