//! `cargo xtask test`: all that must hold before a change is merged.

use std::process::Command;

use anyhow::Result;

use crate::process::{self, Background, cargo, root, step, tested_zkit};
use crate::venv;

/// Checks that are run beside the others: those of buckets wait for a slow server most of the time.
const BESIDE: [&str; 4] =
    ["test_buckets.py", "test_slice_cache.py", "test_scratch.py", "test_conformance.py"];

/// Runs every check; `arguments` go to pytest, to pick some of its tests.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let tests = root().join("tests").join("python");
    // downloads take a minute, in which cargo builds; what cannot be installed is named where it is missed
    let mut install = Command::new(venv::interpreter()?);
    install.arg(tests.join("install_servers.py")).arg(root().join("target").join("servers"));
    let servers = Background::start(install)?;
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
    step("servers", || servers.finish())?;
    let python = step("other readers", || venv::python("venv", &tests.join("requirements.txt")))?;
    let pytest = |arguments: &[String]| {
        let mut pytest = Command::new(&python);
        pytest.args(["-m", "pytest"]).args(arguments).current_dir(&tests).env("PYTHONDONTWRITEBYTECODE", "1");
        pytest.env("ZKIT", tested_zkit());
        pytest
    };
    step("checks by other readers", || {
        if !arguments.is_empty() {
            return process::run(&mut pytest(arguments));
        }
        let aside = Background::start(pytest(&BESIDE.map(str::to_owned)))?;
        let others = process::run(&mut pytest(&BESIDE.map(|file| format!("--ignore={file}"))));
        aside.finish().and(others)
    })
}
