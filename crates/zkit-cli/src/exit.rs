//! The exit codes, all of them.

use std::process::ExitCode;

use zkit_core::error::{Error, ErrorKind};

use crate::output::StdoutClosed;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked, and found nothing to complain about.
    Done,
    /// It did what was asked: there are findings, or the stores differ.
    Findings,
    /// The command line makes no sense.
    Usage,
    /// It could not be completed: something could not be read or written, or does not fit.
    Incomplete,
    /// The user stopped it.
    Interrupted,
}

/// What `--help` says about exit codes.
pub(crate) const HELP: &str = "\
Exit codes: 0 done; 1 there are findings, or the stores differ; 2 the command line makes no sense;
3 the run could not be completed; 130 interrupted.";

impl Exit {
    /// Returns the exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::Incomplete => 3,
            Self::Interrupted => 130,
        }
    }

    /// Returns the one that matters more: interrupted, then incomplete, then findings.
    #[must_use]
    pub const fn worst(self, other: Self) -> Self {
        if self.code() >= other.code() { self } else { other }
    }

    /// Returns how a run ends that returned `error`.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        if error.chain().any(|cause| cause.is::<StdoutClosed>()) {
            return Self::Done;
        }
        let kind = error.chain().find_map(|cause| cause.downcast_ref::<Error>()).map(Error::kind);
        kind.map_or(Self::Incomplete, Self::from)
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Cancelled => Self::Interrupted,
            _ => Self::Incomplete,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_of(kind: ErrorKind) -> Exit {
        Exit::of_error(&anyhow::Error::new(Error::new(kind, "x")).context("outer"))
    }

    #[test]
    fn the_kind_of_the_error_decides() {
        assert_eq!(exit_of(ErrorKind::Usage), Exit::Usage);
        assert_eq!(exit_of(ErrorKind::Cancelled), Exit::Interrupted);
        assert_eq!(exit_of(ErrorKind::Mismatch), Exit::Incomplete);
        assert_eq!(exit_of(ErrorKind::Absent), Exit::Incomplete);
        assert_eq!(Exit::of_error(&anyhow::anyhow!("x")), Exit::Incomplete);
    }

    #[test]
    fn a_closed_stdout_is_no_failure() {
        assert_eq!(Exit::of_error(&anyhow::Error::new(StdoutClosed).context("outer")), Exit::Done);
        let network = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(Exit::of_error(&network.into()), Exit::Incomplete);
    }
}
