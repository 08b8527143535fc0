//! Virtual environments below `target/`, made once and again whenever their requirements change.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{root, run, say, target};

const MARKER: &str = "zkit-requirements";

/// Returns the Python of the environment `name`, in which every package of `requirements` is installed.
///
/// The first call downloads the packages; later calls only compare the requirements with those installed.
pub(crate) fn python(name: &str, requirements: &Path) -> Result<PathBuf> {
    let wanted = read(requirements)?;
    let constraints = requirements.with_file_name("constraints.txt");
    let wanted = if constraints.exists() { wanted + &read(&constraints)? } else { wanted };
    let folder = target().join(name);
    let python = folder.join("bin").join("python");
    if python.exists()
        && std::fs::read_to_string(folder.join(MARKER)).is_ok_and(|installed| installed == wanted)
    {
        return Ok(python);
    }
    create(&folder)?;
    let shown = requirements.strip_prefix(root()).unwrap_or(requirements);
    say(&format!("installing {} into {}", shown.display(), folder.display()));
    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements);
    if constraints.exists() {
        install.arg("--constraint").arg(&constraints);
    }
    run(&mut install)?;
    let marker = folder.join(MARKER);
    std::fs::write(&marker, wanted).with_context(|| format!("could not write {}", marker.display()))?;
    Ok(python)
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))
}

fn create(folder: &Path) -> Result<()> {
    let interpreter = interpreter()?;
    if let Err(error) = run(Command::new(&interpreter).args(["-m", "venv", "--clear"]).arg(folder)) {
        bail!(
            "{error}\n{interpreter} could not make a virtual environment; Debian and Ubuntu keep that part of Python \
             in a package of its own\nhint: install it: apt install python3-venv"
        );
    }
    Ok(())
}

/// Finds a Python that the pinned packages run on: `PYTHON` if set, else the first of the usual names.
pub(crate) fn interpreter() -> Result<String> {
    let named = std::env::var("PYTHON").ok();
    let usual = ["python3", "python3.13", "python3.12", "python3.11", "python"].map(str::to_owned);
    let recent = "import sys; sys.exit(sys.version_info < (3, 11))";
    for candidate in named.into_iter().chain(usual) {
        let answer = Command::new(&candidate).args(["-c", recent]).output();
        if answer.is_ok_and(|output| output.status.success()) {
            return Ok(candidate);
        }
    }
    bail!("found no Python 3.11 or later\nhint: install one, or name it in the environment variable PYTHON")
}
