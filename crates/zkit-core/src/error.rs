//! The one error type of the core: what zkit was doing, where, why, and what to do next.

use std::error::Error as StdError;
use std::fmt;

/// The result of everything in the core that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of failure an [`Error`] is; exit codes and retries follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for something that makes no sense (exit code 2).
    Usage,
    /// What was named does not exist: ENOENT, 404.
    Absent,
    /// It may exist, but could not be read: EIO, 403, 429, 5xx, time-outs, dangling links.
    Unreadable,
    /// It was read, and is not what its metadata promises.
    Corrupt,
    /// It is well formed, but zkit cannot handle it.
    Unsupported,
    /// The destination already exists, or two runs collide.
    Conflict,
    /// It could not be written: no space, read-only, denied.
    Unwritable,
    /// The memory or scratch budget is too small.
    OverBudget,
    /// What was written does not decode to what was read.
    Mismatch,
    /// The user stopped the run.
    Cancelled,
}

/// A failure: its kind, what was being done and where, an optional hint, and the cause as `source`.
///
/// `Display` gives the message alone; the cause is never repeated in it.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    shortage: Option<Shortage>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What was too little: so many bytes were left of the memory budget for something that needs more.
#[derive(Debug, Clone, Copy)]
struct Shortage {
    needs: u64,
    left: u64,
}

impl Error {
    /// Returns the same failure once more, with its cause in words: for others that wait for the same thing.
    pub(crate) fn again(&self) -> Self {
        let again = Self::new(self.kind(), self.one_line());
        match self.hint() {
            Some(hint) => again.with_hint(hint),
            None => again,
        }
    }

    /// Returns an error; `message` says what zkit was doing and where, lower case, without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), hint: None, shortage: None, source: None }))
    }

    /// Returns this error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns this error with what to do next, in the imperative: `pass --overwrite to replace it`.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Returns this error as one of something that needs so many bytes, for which the memory budget left fewer.
    #[must_use]
    pub(crate) fn with_shortage(mut self, needs: u64, left: u64) -> Self {
        self.0.shortage = Some(Shortage { needs, left });
        self
    }

    /// Returns this error with the budget that would do as its hint, if memory was short of one of `memory_bytes`: what is left
    /// of a budget grows as the budget does.
    #[must_use]
    pub(crate) fn with_budget(self, memory_bytes: u64) -> Self {
        let Some(Shortage { needs, left }) = self.0.shortage.filter(|_| self.hint().is_none()) else {
            return self;
        };
        let would_do = u128::from(memory_bytes) * u128::from(needs) / u128::from(left.max(1));
        let would_do = u64::try_from(would_do).unwrap_or(u64::MAX);
        self.with_hint(format!("pass --memory {} or more", memory_argument(would_do)))
    }

    /// Returns an error that says what was being done, with `self` as its cause; kind and hint are kept.
    #[must_use]
    pub fn context(self, message: impl Into<String>) -> Self {
        let (kind, hint, shortage) = (self.kind(), self.0.hint.clone(), self.0.shortage);
        Self(Box::new(Inner { kind, message: message.into(), hint, shortage, source: Some(Box::new(self)) }))
    }

    /// Returns what sort of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns what to do next, if there is something.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the message and every cause, joined by `: `; for places that have one line only.
    pub fn one_line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = StdError::source(self);
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line
    }

    /// Returns [`Self::one_line`], and what to do next behind it, if there is something.
    pub fn one_line_with_hint(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{}; {hint}", self.one_line()),
            None => self.one_line(),
        }
    }
}

/// Returns a `--memory` of at least so many bytes, a little more than rounding takes away.
pub(crate) fn memory_argument(bytes: u64) -> String {
    format!("{}MiB", (bytes >> 20).saturating_add(2))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.one_line())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// Says what was being done when a result is an error.
pub trait Context<T> {
    /// Returns the value, or the error with `message` in front of it.
    fn context(self, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn context(self, message: impl FnOnce() -> String) -> Self {
        self.map_err(|error| error.context(message()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_every_cause_once() {
        let inner = Error::new(ErrorKind::Corrupt, "frame claims 9 bytes, 8 expected");
        let outer = inner.context("could not decode chunk `c/0` of `/t`");
        assert_eq!(
            outer.one_line(),
            "could not decode chunk `c/0` of `/t`: frame claims 9 bytes, 8 expected"
        );
        assert_eq!(outer.kind(), ErrorKind::Corrupt);
    }
}
