//! What cargo cannot do: the demonstration, the whole test run, the side-by-side with other tools, the corpus, fuzz seeds.
//!
//! `cargo xtask` prints the commands. Each lives in its own file; running a child process lives in [`process`].

mod bench;
mod corpus;
mod demo;
mod fuzz_seeds;
mod process;
mod test;
mod venv;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo                           zkit at work on a real store: inspected, recompressed, proven equal
  test [pytest arguments]        everything: formatting, clippy, all Rust tests, and the checks by other readers
                                 (zarr-python, xarray, tensorstore, an S3 server) in a virtual environment of its own
  bench [--peers DIR] [options]  zkit beside zarrs_reencode, tensorstore, zarr-python and xarray, as a Markdown table;
                                 `cargo xtask bench --help` lists the options
  corpus DIR [options]           judge inspect and digest against DIR/manifest.json; `--only GLOB` picks cases
  fuzz-seeds                     fill fuzz/corpus from fixtures/, so that each target reaches its success path
";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            process::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Vec<String>) -> Result<()> {
    if arguments.is_empty() || arguments[0] == "--help" || arguments[0] == "help" {
        process::say(USAGE);
        return Ok(());
    }
    let command = arguments.remove(0);
    match command.as_str() {
        "demo" => demo::run(),
        "test" => test::run(&arguments),
        "bench" => bench::run(&arguments),
        "corpus" => corpus::run(&arguments),
        "fuzz-seeds" => fuzz_seeds::run(),
        unknown => bail!("no command `{unknown}`\n\n{USAGE}"),
    }
}
