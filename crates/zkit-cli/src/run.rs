//! From a command line to an exit code: the same for `zkit inspect` and `zkit-inspect`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, Args, ColorChoice, FromArgMatches};

use zkit_core::error::{Error, ErrorKind};

use crate::args::{Format, GlobalArgs};
use crate::console::Console;
use crate::environment::Environment;
use crate::errors::Color;
use crate::exit::{self, Exit};
use crate::shell::{Shell, stderr_color};
use crate::{echo, errors, panics};

/// A subcommand of zkit.
pub trait Command {
    /// Its name: `inspect` makes `zkit inspect` and `zkit-inspect`.
    const NAME: &'static str;
    /// Its arguments; the doc comment of the type is the help text.
    type Args: Args;
    /// What it answers in; any other `--format` is refused before it runs.
    const FORMATS: &'static [Format] = Format::ANSWERS;

    /// Does what the arguments ask, writes the answer to the shell, and returns how it ended.
    fn run(args: &Self::Args, shell: &Shell) -> anyhow::Result<Exit>;
}

/// A [`Command`] in the list of those that a binary offers.
#[derive(Clone, Copy)]
pub struct Entry {
    name: &'static str,
    define: fn(clap::Command) -> clap::Command,
    run: fn(&ArgMatches, &Shell) -> anyhow::Result<Exit>,
}

impl Entry {
    /// Returns the entry of a command.
    pub const fn of<C: Command>() -> Self {
        Self { name: C::NAME, define: C::Args::augment_args, run: parse_and_run::<C> }
    }
}

/// Runs the one command of a binary (`zkit-inspect`); `main` is no more than this.
pub fn main_of<C: Command>() -> ExitCode {
    main_with(command_of::<C>(), |matches, shell| parse_and_run::<C>(matches, shell))
}

/// Runs the command that the command line names, of all those in a binary (`zkit`).
pub fn main_of_all(about: &'static str, entries: &[Entry]) -> ExitCode {
    main_with(command_of_all(about, entries), |matches, shell| {
        let named = matches.subcommand();
        let chosen =
            named.and_then(|(name, rest)| Some((entries.iter().find(|entry| entry.name == name)?, rest)));
        let (entry, rest) = chosen.expect("clap requires one of the subcommands it was given");
        (entry.run)(rest, shell)
    })
}

/// Returns the command line of a binary with one command; for completions and manual pages.
pub fn command_of<C: Command>() -> clap::Command {
    let name = format!("zkit-{}", C::NAME);
    let command = clap::Command::new(C::NAME).display_name(name.clone()).bin_name(name);
    with_globals(C::Args::augment_args(command))
}

/// Returns the command line of a binary with several commands; for completions and manual pages.
pub fn command_of_all(about: &'static str, entries: &[Entry]) -> clap::Command {
    let subcommand =
        |entry: &Entry| (entry.define)(clap::Command::new(entry.name)).after_long_help(exit::HELP);
    let command = clap::Command::new("zkit").about(about).subcommands(entries.iter().map(subcommand));
    with_globals(command.subcommand_required(true).arg_required_else_help(true))
}

/// Adds what every command line has.
fn with_globals(command: clap::Command) -> clap::Command {
    // Adding a group of arguments also sets its description, which is not what the command is about.
    let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
    let mut command = GlobalArgs::augment_args(command).about(about.unwrap_or_default());
    if let Some(long_about) = long_about {
        command = command.long_about(long_about);
    }
    command
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .max_term_width(100)
        .after_long_help(exit::HELP)
}

fn parse_and_run<C: Command>(matches: &ArgMatches, shell: &Shell) -> anyhow::Result<Exit> {
    let arguments = C::Args::from_arg_matches(matches)?;
    refuse_other_formats::<C>(shell.format())?;
    C::run(&arguments, shell)
}

/// Fails with kind `Usage` where the command does not answer in this format.
fn refuse_other_formats<C: Command>(format: Format) -> Result<(), Error> {
    if C::FORMATS.contains(&format) {
        return Ok(());
    }
    let names: Vec<&str> = C::FORMATS.iter().map(|format| format.name()).collect();
    let message = format!("`{}` has no answer in the format `{}`", C::NAME, format.name());
    Err(Error::new(ErrorKind::Usage, message).with_hint(format!("pass --format {}", names.join(" or "))))
}

fn main_with(
    command: clap::Command,
    run: impl FnOnce(&ArgMatches, &Shell) -> anyhow::Result<Exit>,
) -> ExitCode {
    panics::install_hook();
    let parsed =
        command.try_get_matches().and_then(|matches| Ok((GlobalArgs::from_arg_matches(&matches)?, matches)));
    match parsed {
        Ok((global, matches)) => run_in_shell(&global, |shell| run(&matches, shell)).into(),
        Err(error) if error.use_stderr() => {
            let colored = stderr_color(ColorChoice::Auto, &Environment::read());
            Console::without_bar().write(usage_error(&error, colored, std::env::args_os()).as_bytes());
            Exit::Usage.into()
        }
        Err(error) => {
            // Help and version go to stdout and are no error. A reader that went away is none either.
            let _ = error.print();
            Exit::Done.into()
        }
    }
}

/// Returns what is said of a command line that makes no sense; it quotes arguments, and none of their secrets.
fn usage_error(error: &clap::Error, color: Color, arguments: impl Iterator<Item = OsString>) -> String {
    let text = match color {
        Color::On => error.render().ansi().to_string(),
        Color::Off => error.render().to_string(),
    };
    let text = echo::without_secrets(&text, arguments);
    match error.kind() {
        clap::error::ErrorKind::InvalidUtf8 => {
            let hint = errors::labelled("hint", "36", color);
            format!("{text}{hint}: rename it, or reach it through a link whose name is UTF-8\n")
        }
        _ => text,
    }
}

fn run_in_shell(global: &GlobalArgs, run: impl FnOnce(&Shell) -> anyhow::Result<Exit>) -> Exit {
    let environment = Environment::read();
    let color = stderr_color(global.color, &environment);
    let shell = match Shell::new(global, environment) {
        Ok(shell) => shell,
        Err(error) => return errors::print(&Console::without_bar(), &error.into(), color),
    };
    let ended = shell.install().map_err(Into::into).and_then(|()| run(&shell));
    shell.say_what_was_kept();
    match ended {
        Ok(exit) => exit,
        Err(error) => shell.print_error(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ResourceArgs, SelectArgs, StoreArgs, Verbosity};
    use std::time::Duration;

    struct Probe;

    /// Probes a store.
    #[derive(Args)]
    struct ProbeArgs {
        store: String,
        #[command(flatten)]
        select: SelectArgs,
        #[command(flatten)]
        resources: ResourceArgs,
        #[command(flatten)]
        stores: StoreArgs,
    }

    impl Command for Probe {
        const NAME: &'static str = "probe";
        type Args = ProbeArgs;

        fn run(_: &ProbeArgs, _: &Shell) -> anyhow::Result<Exit> {
            Ok(Exit::Done)
        }
    }

    const ENTRIES: &[Entry] = &[Entry::of::<Probe>()];

    fn parsed(line: &str) -> Result<(GlobalArgs, ProbeArgs), clap::Error> {
        let matches = command_of::<Probe>().try_get_matches_from(line.split(' '))?;
        Ok((GlobalArgs::from_arg_matches(&matches)?, ProbeArgs::from_arg_matches(&matches)?))
    }

    #[test]
    fn command_lines_are_well_formed() {
        command_of::<Probe>().debug_assert();
        command_of_all("Does it all", ENTRIES).debug_assert();
    }

    #[test]
    fn each_help_text_is_the_one_of_its_command() {
        let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
        assert_eq!(about(&command_of::<Probe>()).as_deref(), Some("Probes a store"));
        let all = command_of_all("Does it all", ENTRIES);
        assert_eq!(about(&all).as_deref(), Some("Does it all"));
        assert_eq!(all.find_subcommand("probe").and_then(about).as_deref(), Some("Probes a store"));
    }

    #[test]
    fn help_groups_the_arguments() {
        let help = command_of::<Probe>().render_help().to_string();
        let headings: Vec<&str> = help.lines().filter(|line| line.ends_with(" options:")).collect();
        let expected = ["Selection options:", "Resource options:", "Store options:", "Output options:"];
        assert_eq!(headings, expected, "{help}");
    }

    #[test]
    fn defaults_are_those_of_the_help() {
        let (global, args) = parsed("zkit-probe s").unwrap();
        assert_eq!((global.format, global.verbosity()), (Format::Text, Verbosity::Normal));
        assert_eq!(args.stores.timeout, Duration::from_secs(60));
        assert_eq!(args.stores.stall_timeout, Duration::from_secs(300));
        assert!(args.select.filter().takes_all());
        assert!(args.resources.jobs().get() >= 1);
        assert!(args.resources.memory_budget().bytes > 0);
    }

    #[test]
    fn options_that_all_share_stand_before_or_after_the_command() {
        for line in ["zkit --format json -vv probe s", "zkit probe --format json s -vv"] {
            let command = command_of_all("Does it all", ENTRIES);
            let matches = command.try_get_matches_from(line.split(' ')).unwrap();
            let global = GlobalArgs::from_arg_matches(&matches).unwrap();
            assert_eq!((global.format, global.verbosity()), (Format::Json, Verbosity::Debug), "{line}");
        }
    }

    #[test]
    fn both_binaries_know_their_names() {
        assert_eq!(
            command_of::<Probe>().render_version(),
            format!("zkit-probe {}\n", env!("CARGO_PKG_VERSION"))
        );
        assert!(command_of::<Probe>().render_usage().to_string().contains("zkit-probe"));
    }

    #[test]
    fn values_that_make_no_sense_are_usage_errors() {
        let lines = [
            "--memory 0",
            "--jobs 0",
            "--deadline 5",
            "--include [",
            "--storage-option x",
            "--timeout 0s",
            "-q -v",
        ];
        for line in lines {
            let error = parsed(&format!("zkit-probe s {line}")).err();
            assert!(error.is_some_and(|error| error.use_stderr() && error.exit_code() == 2), "{line}");
        }
    }

    #[test]
    fn usage_errors_tell_no_secret() {
        let lines = [
            "zkit-probe s --allow-prefix http://user:PA/SSw0rd@127.0.0.1:x/y",
            "zkit-probe s --storage-option PASSw0rd",
            "zkit-probe s http://user:PASSw0rd@h/x",
            "zkit-probe s --timeout ftp://user:PASSw0rd@h/x",
            "zkit-probe s --allow-prefix ftp://user:PASSw0rd@h/x",
        ];
        for line in lines {
            let error = parsed(line).err().unwrap();
            for color in [Color::On, Color::Off] {
                let text = usage_error(&error, color, line.split(' ').map(OsString::from));
                assert!(text.contains("error") && !text.contains("SSw0rd"), "{text}");
            }
        }
    }

    #[test]
    fn formats_that_a_command_has_not_are_refused() {
        for format in Format::ANSWERS {
            assert!(refuse_other_formats::<Probe>(*format).is_ok());
        }
        let error = refuse_other_formats::<Probe>(Format::Sarif).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert_eq!(error.to_string(), "`probe` has no answer in the format `sarif`");
        assert_eq!(error.hint(), Some("pass --format text or json"));
    }

    #[test]
    fn options_of_stores_may_be_repeated() {
        let (_, args) = parsed("zkit-probe s --storage-option a=1 --storage-option b=2 --anonymous").unwrap();
        assert_eq!(args.stores.storage_options.len(), 2);
        assert!(args.stores.anonymous && args.store == "s");
    }
}
