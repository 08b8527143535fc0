//! The shell around every zkit command: what is the same whichever command runs.
//!
//! A command is a type that implements [`Command`]: its arguments and a function from them and a [`Shell`] to
//! an [`Exit`]. It writes its answer through [`Shell::emit`], hands [`Shell::observer`] and [`Shell::cancel`]
//! to the core, and returns errors; everything else (arguments that all commands share, progress, logs,
//! signals, error printing, exit codes) happens here, each in one file.
//!
//! stdout carries the answer only. Whatever else is said goes to stderr, through the `console` module.

#![warn(missing_docs)]

pub mod args;
pub mod cached;
mod console;
mod echo;
pub mod environment;
mod errors;
mod exit;
mod logging;
pub mod memory;
mod output;
mod panics;
mod progress;
mod rates;
pub mod reports;
mod run;
pub mod settings;
mod shell;
mod signals;
pub mod targets;
pub mod traffic;
pub mod values;
mod watchdog;
pub mod writing;

pub use exit::Exit;
pub use run::{Command, Entry, command_of, command_of_all, main_of, main_of_all};
pub use shell::Shell;
