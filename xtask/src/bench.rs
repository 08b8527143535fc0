//! `cargo xtask bench`: zkit beside the tools that people use today, in turn, on one machine and the same data.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::process::{self, Profile, build_zkit, root, say};
use crate::venv;

/// Runs `benches/peers/compare.py`; `--peers DIR` names a folder with peers that are installed already.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (peers, options) = split(arguments);
    let zkit = build_zkit(Profile::Release)?;
    let folder = root().join("benches").join("peers");
    let installed = peers
        .as_ref()
        .map(|peers| peers.join("venv").join("bin").join("python"))
        .filter(|python| python.exists());
    let python = match installed {
        Some(python) => python,
        None => venv::python("bench-venv", &folder.join("requirements.txt"))?,
    };
    let mut compare = Command::new(&python);
    compare.arg(folder.join("compare.py")).arg("--zkit").arg(zkit).args(options);
    match zarrs_reencode(peers.as_deref()) {
        Some(binary) => {
            compare.arg("--zarrs-reencode").arg(binary);
        }
        None => say(
            "zarrs_reencode is left out\nhint: cargo install zarrs_tools --version 0.8.1 --locked --all-features",
        ),
    }
    process::run(&mut compare)
}

fn split(arguments: &[String]) -> (Option<PathBuf>, Vec<&String>) {
    let at = arguments.iter().position(|argument| argument == "--peers");
    let peers = at.and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    let kept = |position: &usize| at.is_none_or(|at| *position != at && *position != at + 1);
    (peers, (0..arguments.len()).filter(kept).map(|position| &arguments[position]).collect())
}

fn zarrs_reencode(peers: Option<&Path>) -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let given = peers.map(|peers| peers.join("zarrs_tools").join("bin"));
    given
        .into_iter()
        .chain(std::env::split_paths(&search))
        .map(|folder| folder.join("zarrs_reencode"))
        .find(|file| file.is_file())
}
