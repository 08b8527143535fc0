//! `cargo xtask test`: all that must hold before a change is merged.

use std::num::NonZeroUsize;
use std::process::Command;

use anyhow::Result;

use crate::process::{self, Background, cargo, root, step, tested_zkit};
use crate::venv;

/// Runs every check; `arguments` go to pytest, to pick some of its tests.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let tests = root().join("tests").join("python");
    // downloads take a minute, in which cargo builds; what cannot be installed is named where it is missed
    let mut install = Command::new(venv::interpreter()?);
    install.arg(tests.join("install_servers.py")).arg(root().join("target").join("servers"));
    let servers = Background::start(install)?;
    let requirements = tests.join("requirements.txt");
    let packages = std::thread::spawn(move || venv::python("venv", &requirements));
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
    let python =
        step("other readers", || packages.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))?;
    step("Python style", || {
        let ruff = |arguments: &[&str]| {
            let mut ruff = Command::new(&python);
            ruff.args(["-m", "ruff"]).args(arguments).args([
                "--no-cache",
                "--quiet",
                "--config",
                "ruff.toml",
            ]);
            process::run(ruff.args([".", "../../benches"]).current_dir(&tests))
        };
        ruff(&["check"])?;
        ruff(&["format", "--check"])
    })?;
    step("checks by other readers", || {
        let mut pytest = Command::new(&python);
        pytest.args(["-m", "pytest"]).current_dir(&tests);
        pytest.env("PYTHONDONTWRITEBYTECODE", "1").env("ZKIT", tested_zkit());
        if arguments.is_empty() {
            // one more than cores: checks of servers and of kills wait most of the time
            let lanes = std::thread::available_parallelism().map_or(1, NonZeroUsize::get) + 1;
            pytest.args(["--numprocesses", &lanes.to_string(), "--dist", "worksteal"]);
        }
        process::run(pytest.args(arguments))
    })
}
