//! Where the answer goes: stdout, or a file that appears once it is complete.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::{NamedTempFile, TempPath};
use zkit_core::error::{Error, ErrorKind};

/// The reader of stdout went away before the answer was complete (`zkit inspect ... | head`); not a failure.
#[derive(Debug)]
pub(crate) struct StdoutClosed;

impl std::fmt::Display for StdoutClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of stdout went away")
    }
}

impl std::error::Error for StdoutClosed {}

/// Where the answer goes; opened before the long run, so that it does not end in vain.
#[derive(Debug)]
pub(crate) enum Output {
    Stdout,
    File(FileOutput),
}

/// A file for the answer.
#[derive(Debug)]
pub(crate) struct FileOutput {
    path: PathBuf,
    /// What is open until the answer is written.
    target: Mutex<Option<Target>>,
}

#[derive(Debug)]
enum Target {
    /// A sibling of the path, renamed to it when complete.
    Sibling(NamedTempFile),
    /// A device or a pipe: written as it is.
    Direct(fs::File),
}

impl Output {
    /// Opens what `--output` names; nothing and `-` are stdout.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else { return Ok(Self::Stdout) };
        let target = Target::open(path).map_err(|error| could_not_write(path, error))?;
        Ok(Self::File(FileOutput { path: path.into(), target: Mutex::new(Some(target)) }))
    }

    /// Writes the answer, whole; a file can take one answer.
    pub(crate) fn write(&self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        match self {
            Self::Stdout => write_stdout(fill),
            Self::File(file) => file.write(fill).map_err(|error| could_not_write(&file.path, error).into()),
        }
    }

    /// Removes what was opened and not completed; for the way out that runs no destructors.
    pub(crate) fn abandon(&self) {
        // `try_lock`: the thread that holds the lock may never give it back.
        if let Self::File(file) = self
            && let Ok(mut target) = file.target.try_lock()
        {
            drop(target.take());
        }
    }
}

impl FileOutput {
    fn write(&self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut target = self.target.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match target.take() {
            Some(Target::Sibling(file)) => {
                let (file, path) = file.into_parts();
                write_buffered(&file, fill)?;
                file.sync_all()?;
                TempPath::persist(path, resolved(&self.path)).map_err(|error| error.error)
            }
            Some(Target::Direct(file)) => write_buffered(&file, fill),
            None => Err(io::Error::other("an answer was already written to it")),
        }
    }
}

impl Target {
    fn open(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => {
                Ok(Self::Direct(OpenOptions::new().write(true).open(path)?))
            }
            _ => Ok(Self::Sibling(sibling_of(&resolved(path))?)),
        }
    }
}

/// Returns the file behind links, so that a link stays one when the answer is renamed to it.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.into())
}

/// Creates a file beside `path`, with the permissions that a new file gets.
fn sibling_of(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".zkit-").suffix(".partial");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

fn write_stdout(fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    match write_buffered(io::stdout().lock(), fill) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
        Err(error) => {
            Err(Error::new(ErrorKind::Unwritable, "could not write to stdout").with_source(error).into())
        }
    }
}

fn write_buffered(target: impl Write, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffered = BufWriter::with_capacity(64 * 1024, target);
    fill(&mut buffered)?;
    buffered.flush()
}

fn could_not_write(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Unwritable, format!("could not write `{}`", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(output: &Output, text: &str) -> anyhow::Result<()> {
        output.write(|out| out.write_all(text.as_bytes()))
    }

    #[test]
    fn the_file_appears_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.json");
        fs::write(&path, "old").unwrap();
        let output = Output::open(Some(&path)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        write(&output, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(&output, "again").is_err());
    }

    #[test]
    fn an_answer_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.json");
        fs::write(&path, "old").unwrap();
        let output = Output::open(Some(&path)).unwrap();
        assert!(output.write(|_| Err(io::Error::other("broken"))).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_stays_behind_when_a_run_is_abandoned() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::open(Some(&folder.path().join("answer"))).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        output.abandon();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&Output::open(Some(&link)).unwrap(), "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_written_as_they_are() {
        write(&Output::open(Some(Path::new("/dev/null"))).unwrap(), "gone").unwrap();
    }

    #[test]
    fn refuses_folders_and_missing_folders_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Output::open(Some(folder.path())).is_err());
        let error = Output::open(Some(&folder.path().join("missing/answer"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unwritable);
    }
}
