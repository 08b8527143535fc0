//! `cargo xtask test`: all that must hold before a change is merged.

use std::process::Command;

use anyhow::Result;

use crate::process::{self, cargo, root, step, tested_zkit};
use crate::venv;

/// Runs every check; `arguments` go to pytest, to pick some of its tests.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    step("formatting", || process::run(&mut cargo(["fmt", "--all", "--check"])))?;
    step("clippy", || {
        process::run(&mut cargo([
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ]))
    })?;
    step("Rust tests", || process::run(&mut cargo(["test", "--locked", "--workspace"])))?;
    step("documentation", || {
        process::run(
            cargo(["doc", "--locked", "--workspace", "--no-deps", "--quiet"])
                .env("RUSTDOCFLAGS", "--deny warnings"),
        )
    })?;
    let tests = root().join("tests").join("python");
    let python = step("other readers", || venv::python("venv", &tests.join("requirements.txt")))?;
    step("checks by other readers", || {
        let mut pytest = Command::new(python);
        pytest.args(["-m", "pytest"]).args(arguments).current_dir(&tests).env("PYTHONDONTWRITEBYTECODE", "1");
        process::run(pytest.env("ZKIT", tested_zkit()))
    })
}
