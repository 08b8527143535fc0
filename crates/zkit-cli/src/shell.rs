//! What a command is given: where its answer goes, who watches it, and how it learns that it should stop.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use clap::ColorChoice;
use serde::Serialize;
use zkit_core::cancel::Cancel;
use zkit_core::error::{Error, ErrorKind};
use zkit_core::event::Observer;
use zkit_core::store::{ChunkCache, Network, NetworkLimits};
use zkit_report::render::{json, text};
use zkit_report::{Document, Report, format, sanitize};

use crate::args::{Format, GlobalArgs, Verbosity};
use crate::console::Console;
use crate::environment::{Environment, Stream};
use crate::errors::{self, Color, labelled};
use crate::exit::Exit;
use crate::logging;
use crate::output::Output;
use crate::progress::{Display, Progress};
use crate::reports::write_report;
use crate::signals;
use crate::watchdog;

/// The surroundings of a command.
pub struct Shell {
    format: Format,
    verbosity: Verbosity,
    style: text::Style,
    color: Color,
    output: Arc<Output>,
    console: Console,
    progress: Progress,
    cancel: Cancel,
    deadline_passed: Arc<AtomicBool>,
    environment: Environment,
    network: OnceLock<Network>,
    chunk_cache: OnceLock<Option<ChunkCache>>,
}

impl Shell {
    /// Returns the surroundings that the arguments ask for, with the place for the answer open.
    ///
    /// Fails with kind `Unwritable` where the answer cannot be written.
    pub fn new(global: &GlobalArgs, environment: Environment) -> Result<Self, Error> {
        let output = Output::open(global.output.as_deref())?;
        let display = display_of(global, &environment);
        let console = match display {
            Display::UnicodeBar | Display::AsciiBar => Console::with_bar(),
            Display::Quiet | Display::Lines => Console::without_bar(),
        };
        let color = stderr_color(global.color, &environment);
        Ok(Self {
            format: global.format,
            verbosity: global.verbosity(),
            style: style_of(global, &environment, &output),
            color,
            output: Arc::new(output),
            progress: Progress::new(display, console.clone(), color),
            console,
            cancel: Cancel::default(),
            deadline_passed: Arc::default(),
            environment,
            network: OnceLock::new(),
            chunk_cache: OnceLock::new(),
        })
    }

    /// Writes the answer, in the format that was asked for: the document for people, or the value for
    /// programs.
    ///
    /// Progress ends here. Call it once: a file takes one answer. Fails with kind `Usage` in a format that only
    /// reports have.
    pub fn emit(&self, document: &Document, value: &impl Serialize) -> anyhow::Result<()> {
        self.progress.stop();
        match self.format {
            Format::Text => {
                let text = text::render(document, &self.style);
                self.output.write(|out| out.write_all(text.as_bytes()))
            }
            Format::Json => self.output.write(|out| json::write(out, value)),
            Format::Junit | Format::Sarif | Format::Github | Format::Html => {
                let message = format!("this has no answer in the format `{}`", self.format.name());
                Err(Error::new(ErrorKind::Usage, message).with_hint("pass --format text or json").into())
            }
        }
    }

    /// Writes a report as the answer, in the format that was asked for.
    ///
    /// Progress ends here. Call it once: a file takes one answer. A command that calls it lists
    /// [`Format::REPORTS`] as its [`Command::FORMATS`](crate::Command::FORMATS).
    pub fn emit_report(&self, report: &Report) -> anyhow::Result<()> {
        self.progress.stop();
        self.output.write(|out| write_report(out, report, self.format, &self.style))
    }

    /// Returns for whom the answer is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the environment, read once.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the flag that tells long work to stop.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Says that something moved, where waiting is all there is to do.
    pub(crate) fn beat(&self) {
        self.progress.pulse().beat();
    }

    /// Returns what all remote stores of the run share; the limits are those of the first call, as a command line has one set.
    ///
    /// The watchdog counts what arrives over it as progress.
    pub(crate) fn network(&self, limits: NetworkLimits) -> Network {
        self.network
            .get_or_init(|| {
                let meter = self.progress.meter();
                Network::new(limits, self.progress.pulse(), Arc::clone(&meter.traffic))
            })
            .clone()
    }

    /// Starts to show progress, and returns the observer that long work reports to.
    pub fn observer(&self) -> &dyn Observer {
        self.progress.start();
        &self.progress
    }

    /// Returns the chunk cache of this run, the same each time; `None` where it cannot be made, which is a warning.
    ///
    /// Fails with kind `Usage` for a folder that is none.
    pub(crate) fn chunk_cache(&self, directory: &Path, most_bytes: u64) -> Result<Option<ChunkCache>, Error> {
        if let Some(cache) = self.chunk_cache.get() {
            return Ok(cache.clone());
        }
        let warn = self.progress.warner();
        let cache = match ChunkCache::open(directory, most_bytes, warn.clone()) {
            Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
                warn(format!("{error}{}; nothing is kept of remote stores", cause.unwrap_or_default()));
                None
            }
            Ok(cache) => Some(cache),
        };
        Ok(self.chunk_cache.get_or_init(|| cache).clone())
    }

    /// Says on stderr what of remote stores came from the chunk cache, with `--verbose`.
    pub(crate) fn say_what_was_kept(&self) {
        if let Some(Some(cache)) = self.chunk_cache.get() {
            tracing::info!("the chunk cache held {} of what was read", format::bytes(cache.served_bytes()));
        }
    }

    /// Says on stderr what the user could do, in the imperative; not with `--quiet`.
    pub fn hint(&self, text: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.console.line(&format!("{}: {}", labelled("hint", "36", self.color), sanitize(text)));
        }
    }

    /// Says on stderr what decides about the run and was not asked for on the command line; not with `--quiet`.
    pub fn note(&self, text: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.console.line(&format!("{}: {}", labelled("note", "36", self.color), sanitize(text)));
        }
    }

    /// Warns on stderr.
    pub fn warn(&self, text: String) {
        self.progress.warner()(text);
    }

    /// Asks the user a question on the terminal; returns whether the answer was yes.
    ///
    /// Fails with kind `Usage` and the hint `without_terminal` (`pass --yes to replace it`) where nobody can
    /// answer.
    pub fn confirm(&self, question: &str, without_terminal: &str) -> Result<bool, Error> {
        if Stream::of(&io::stdin()) == Stream::Other || Stream::of(&io::stderr()) == Stream::Other {
            let error = Error::new(
                ErrorKind::Usage,
                format!("could not ask `{question}`: stdin or stderr is no terminal"),
            );
            return Err(error.with_hint(without_terminal));
        }
        self.progress.stop();
        self.console.write(format!("{} [y/N] ", sanitize(question)).as_bytes());
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(|error| {
            Error::new(ErrorKind::Unreadable, "could not read the answer").with_source(error)
        })?;
        self.cancel.check()?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Asks the run to stop once `deadline` has passed from now; `None` sets no deadline.
    pub fn stop_after(&self, deadline: Option<Duration>) {
        let Some(deadline) = deadline else { return };
        let (cancel, passed, console) =
            (self.cancel.clone(), Arc::clone(&self.deadline_passed), self.console.clone());
        // Not joined: it ends with the process.
        thread::spawn(move || {
            thread::sleep(deadline);
            passed.store(true, Ordering::Relaxed);
            cancel.cancel();
            console.line(&format!("stopping: the deadline of {} has passed", format::duration(deadline)));
        });
    }

    /// Ends the process with exit code 3 once work is under way and nothing has moved for `stall_timeout`.
    pub fn watch_stalls(&self, stall_timeout: Duration) {
        watchdog::watch(stall_timeout, self.progress.activity(), self.progress.phase(), self.console.clone());
    }

    /// Sends logs to stderr and lets signals stop the run; once a process.
    pub(crate) fn install(&self) -> Result<(), Error> {
        logging::install(&self.console, self.verbosity);
        let output = Arc::clone(&self.output);
        signals::listen(self.cancel.clone(), self.console.clone(), move || output.abandon()).map_err(
            |error| Error::new(ErrorKind::Unsupported, "could not listen to signals").with_source(error),
        )
    }

    /// Prints how the run failed, and returns how it ends.
    pub(crate) fn print_error(&self, error: &anyhow::Error) -> Exit {
        self.progress.stop();
        match errors::print(&self.console, error, self.color) {
            // Nobody stopped it by hand.
            Exit::Interrupted if self.deadline_passed.load(Ordering::Relaxed) => Exit::Incomplete,
            exit => exit,
        }
    }
}

/// Returns whether stderr is coloured.
pub(crate) fn stderr_color(choice: ColorChoice, environment: &Environment) -> Color {
    match choice {
        ColorChoice::Always => Color::On,
        ColorChoice::Never => Color::Off,
        ColorChoice::Auto if environment.welcomes_color(Stream::of(&io::stderr())) => Color::On,
        ColorChoice::Auto => Color::Off,
    }
}

fn display_of(global: &GlobalArgs, environment: &Environment) -> Display {
    match Stream::of(&io::stderr()) {
        _ if global.quiet => Display::Quiet,
        Stream::Other => Display::Lines,
        Stream::Terminal if environment.shows_unicode() => Display::UnicodeBar,
        Stream::Terminal => Display::AsciiBar,
    }
}

/// Returns how the answer is laid out. In files and pipes tables are as wide as they need: `grep` sees whole
/// rows.
fn style_of(global: &GlobalArgs, environment: &Environment, output: &Output) -> text::Style {
    let stream = match output {
        Output::Stdout => Stream::of(&io::stdout()),
        Output::File(_) => Stream::Other,
    };
    let columns = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    text::Style {
        width: columns.filter(|_| stream == Stream::Terminal).unwrap_or(usize::MAX),
        color: match (global.color, output) {
            (ColorChoice::Always, _) => true,
            (ColorChoice::Never, _) | (ColorChoice::Auto, Output::File(_)) => false,
            (ColorChoice::Auto, Output::Stdout) => environment.welcomes_color(stream),
        },
        unicode: environment.shows_unicode(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};
    use std::fs;

    /// Returns a shell whose answer goes to `path`.
    fn shell(path: &Path, options: &[&str]) -> Shell {
        let command = GlobalArgs::augment_args(clap::Command::new("test"));
        let line = ["test", "--output"].iter().map(|word| (*word).into()).chain([path.into()]);
        let line = line.chain(options.iter().map(std::ffi::OsString::from));
        let global = GlobalArgs::from_arg_matches(&command.get_matches_from(line)).unwrap();
        Shell::new(&global, Environment::default()).unwrap()
    }

    fn answer(options: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer");
        let mut document = Document::new();
        document.title("Arrays").paragraph("none \u{1b}");
        shell(&path, options).emit(&document, &serde_json::json!({"schema_version": 1})).unwrap();
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_format_decides_which_answer_is_written() {
        assert_eq!(answer(&[]), "Arrays\nnone \\u{1b}\n");
        assert_eq!(answer(&["--format", "json"]), "{\n  \"schema_version\": 1\n}\n");
    }

    #[test]
    fn a_report_is_written_in_every_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer");
        let starts = [
            ("text", "no findings in 0 stores\n"),
            ("json", "{\n  \"schema_version\": 1,"),
            ("junit", "<?xml "),
            ("sarif", "{\n  \"$schema\": "),
            ("github", "zkit audit: no findings in 0 stores\n"),
            ("html", "<!doctype html>"),
        ];
        assert_eq!(
            starts.map(|(name, _)| name).to_vec(),
            Format::REPORTS.iter().map(|format| format.name()).collect::<Vec<_>>()
        );
        for (name, start) in starts {
            shell(&path, &["--format", name]).emit_report(&Report::new("0.1.0")).unwrap();
            let answer = fs::read_to_string(&path).unwrap();
            assert!(answer.starts_with(start), "{name}: {answer}");
            assert!(answer.ends_with('\n'), "{name}: {answer}");
        }
    }

    #[test]
    fn a_file_is_coloured_only_when_asked() {
        assert!(answer(&["--color", "always"]).starts_with("\u{1b}[1mArrays"));
        assert!(!answer(&["--color", "auto"]).contains('\u{1b}'));
    }

    #[test]
    fn the_deadline_stops_the_run_as_incomplete() {
        let folder = tempfile::tempdir().unwrap();
        let shell = shell(&folder.path().join("answer"), &["--quiet"]);
        let cancelled = || anyhow::Error::new(Error::new(ErrorKind::Cancelled, "stopped before the end"));
        assert_eq!(shell.print_error(&cancelled()), Exit::Interrupted);
        shell.stop_after(None);
        shell.stop_after(Some(Duration::from_millis(1)));
        while !shell.cancel().is_cancelled() {
            thread::yield_now();
        }
        assert_eq!(shell.print_error(&cancelled()), Exit::Incomplete);
    }
}
