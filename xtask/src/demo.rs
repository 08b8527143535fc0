//! `cargo xtask demo`: the main job on a real store, one command line after the other.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{self, Profile, build_zkit, root, say, target};

/// The store of the README's tour: sea surface temperatures behind delta and zlib.
const SOURCE: &str = "fixtures/ostia_sst.zarr";

/// Inspects the store, recompresses it, and proves the copy equal in three ways.
///
/// The copy stays in `target/demo`, to be looked at; the next run replaces it.
pub(crate) fn run() -> Result<()> {
    let zkit = build_zkit(Profile::Dev)?;
    let folder = target().join("demo");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let copy = folder.join("ostia_zstd.zarr");
    let copy = copy.strip_prefix(root()).unwrap_or(&copy).to_string_lossy().into_owned();
    let command_lines: [&[&str]; 6] = [
        &["inspect", SOURCE],
        &["recompress", SOURCE, &copy, "--codec", "blosc:zstd:3:bitshuffle", "--verify", "full"],
        &["inspect", &copy],
        &["compare", SOURCE, &copy],
        &["digest", SOURCE],
        &["digest", &copy],
    ];
    for arguments in command_lines {
        say(&format!("\n$ zkit {}", arguments.join(" ")));
        process::run(Command::new(&zkit).args(arguments).current_dir(root()))?;
    }
    Ok(())
}
