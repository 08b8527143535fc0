"""Installs the servers of the conformance suite that PyPI does not have: Azurite (npm) and nginx (apt).

    python install_servers.py FOLDER

Nothing outside the folder is changed, and nobody need be root. What cannot be installed leaves a file `NAME.missing`
that says why, for the summary of the suite; the exit code is 0 all the same.
"""

import pathlib
import shutil
import subprocess
import sys

AZURITE = "azurite@3.35.0"
INSTALL_SECONDS = 300


class NotInstalled(Exception):
    """Why a server cannot be installed, as the end of `Azure: not run, ...`."""


def ran(*command, **options):
    """Runs a command to its end; what it says is kept for its failure."""
    if not shutil.which(command[0]):
        raise NotInstalled(f"{command[0]} is not installed")
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, errors="replace", timeout=INSTALL_SECONDS, **options
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()
        raise NotInstalled(f"`{' '.join(command[:2])}` failed: {said[-1] if said else error.returncode}") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstalled(f"`{' '.join(command[:2])}` took more than {INSTALL_SECONDS} s") from error


def azurite(folder):
    """Where Azurite's blob server is below a folder, and how it gets there."""
    program = folder / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        ran("npm", "install", "--prefix", str(folder / "azurite"), "--no-audit", "--no-fund", AZURITE)
    return program


def nginx(folder):
    """Where nginx is: the system's own, or that of a package which is unpacked and not installed."""
    own = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    program = folder / "nginx" / "usr" / "sbin" / "nginx"
    if own or program.exists():
        return pathlib.Path(own or program)
    (folder / "nginx").mkdir(parents=True, exist_ok=True)
    try:
        ran("apt-get", "download", "nginx", cwd=folder / "nginx")
    except NotInstalled:
        # a fresh machine has no list of packages; only root can fetch one
        ran("apt-get", "update")
        ran("apt-get", "download", "nginx", cwd=folder / "nginx")
    package = next((folder / "nginx").glob("nginx_*.deb"))
    ran("dpkg", "-x", str(package), str(folder / "nginx"))
    ran(str(program), "-v")
    return program


SERVERS = {"azurite": azurite, "nginx": nginx}


def main(folder):
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name, install in SERVERS.items():
        missing = folder / f"{name}.missing"
        try:
            install(folder)
            missing.unlink(missing_ok=True)
        except NotInstalled as why:
            missing.write_text(str(why))
            print(f"{name}: {why}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
