//! `cargo xtask corpus DIR`: zkit judged against a corpus of stores whose manifest says what each holds.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{self, Profile, build_zkit, root};

/// Builds zkit and hands over to `tests/python/judge_corpus.py`, which needs only Python itself.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [folder, options @ ..] = arguments else {
        bail!("name the corpus: cargo xtask corpus DIR");
    };
    let zkit = build_zkit(Profile::Release)?;
    let script = root().join("tests").join("python").join("judge_corpus.py");
    process::run(
        Command::new("python3").arg(script).arg("--zkit").arg(zkit).arg("--corpus").arg(folder).args(options),
    )
}
