//! Children: one place that starts them, names them when they fail, and says what is going on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

/// Prints one line for the person who waits.
#[expect(clippy::print_stderr, reason = "the one place where xtask talks")]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// Runs `work` under a heading, and says how long it took.
pub(crate) fn step<T>(title: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    say(&format!("\n== {title}"));
    let started = Instant::now();
    let result = work().with_context(|| title.to_owned())?;
    say(&format!("== {title}: {:.1} s", started.elapsed().as_secs_f64()));
    Ok(result)
}

/// Returns the repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Returns where cargo builds to: `CARGO_TARGET_DIR`, else `target`.
pub(crate) fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root().join(named.unwrap_or_else(|| PathBuf::from("target")))
}

/// Returns a command that runs the cargo which started xtask, in the repository's root.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command to its end; an error names it and how it ended.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}`: {status}");
    }
    Ok(())
}

/// A command that runs beside others; what it says is kept until it is finished.
pub(crate) struct Background {
    shown: String,
    child: Child,
    output: NamedTempFile,
}

impl Background {
    /// Starts a command.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let shown = show(&command);
        let output = NamedTempFile::new().context("could not keep the output of a command")?;
        let file = output.reopen()?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
        Ok(Self { shown, child, output })
    }

    /// Waits for the command and prints what it said; an error names it and how it ended.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.child.wait().with_context(|| format!("could not wait for `{}`", self.shown))?;
        let output = std::fs::read(self.output.path()).unwrap_or_default();
        say(String::from_utf8_lossy(&output).trim_end());
        if !status.success() {
            bail!("`{}`: {status}", self.shown);
        }
        Ok(())
    }
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Builds the `zkit` binary and returns its path.
pub(crate) fn build_zkit(profile: Profile) -> Result<PathBuf> {
    let (flags, folder): (&[&str], _) = match profile {
        Profile::Dev => (&[], "debug"),
        Profile::Release => (&["--release"], "release"),
    };
    run(cargo(["build", "--locked", "--package", "zkit", "--bin", "zkit"]).args(flags))?;
    Ok(target().join(folder).join(format!("zkit{}", std::env::consts::EXE_SUFFIX)))
}

/// Returns the `zkit` that `cargo test` built for its own tests of the binary.
pub(crate) fn tested_zkit() -> PathBuf {
    target().join("debug").join(format!("zkit{}", std::env::consts::EXE_SUFFIX))
}

/// Which build of `zkit`.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// Quick to build.
    Dev,
    /// What users run, and what is measured.
    Release,
}
