//! Logs of zkit itself, on stderr, above the progress bar.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use zkit_report::sanitize;

use crate::args::Verbosity;
use crate::console::Console;

/// Sends the logs of zkit's crates, and of no other, to the console.
pub(crate) fn install(console: &Console, verbosity: Verbosity) {
    let level = match verbosity {
        Verbosity::Quiet => "error",
        Verbosity::Normal => "warn",
        Verbosity::Info => "info",
        Verbosity::Debug => "debug",
        Verbosity::Trace => "trace",
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(format!("zkit={level},zkit_core={level},zkit_cli={level}")))
        .with_writer(Lines(console.clone()))
        // Lines may name nodes of a store; without colours all of a line can be made safe to print.
        .with_ansi(false)
        .without_time()
        .with_target(verbosity >= Verbosity::Debug)
        .finish();
    // Fails only where a test has already set one.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Hands each event, which the subscriber writes in one piece, to the console.
struct Lines(Console);

struct Line(Console);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.0.clone())
    }
}

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.line(&printable(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns one event as one line.
fn printable(bytes: &[u8]) -> String {
    sanitize(String::from_utf8_lossy(bytes).trim_end_matches('\n')).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_it_names() {
        assert_eq!(printable(b" WARN skipped `/a\nb\x1b[2J`\n"), r" WARN skipped `/a\nb\u{1b}[2J`");
    }
}
