//! stderr: the one way to it, shared by progress, warnings, hints, logs and errors.

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget};

/// Writes to stderr, above the progress bar where there is one; clones share the bar.
///
/// Writing never fails: a run does not end because nobody listens.
#[derive(Debug, Clone)]
pub(crate) struct Console {
    bar: ProgressBar,
}

impl Console {
    /// Returns a console whose bar is drawn on stderr.
    pub(crate) fn with_bar() -> Self {
        Self { bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10)) }
    }

    /// Returns a console that draws no bar.
    pub(crate) fn without_bar() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// Returns the bar.
    pub(crate) fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// Writes text and a newline; callers sanitize what came from a store.
    pub(crate) fn line(&self, text: &str) {
        self.write(format!("{text}\n").as_bytes());
    }

    /// Writes bytes in one piece.
    pub(crate) fn write(&self, bytes: &[u8]) {
        self.bar.suspend(|| {
            let mut stderr = io::stderr().lock();
            let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
        });
    }
}
