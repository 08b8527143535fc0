"""The places of the conformance suite: a folder, and real servers of each protocol, seen without zkit.

Each place is looked at through the cloud's own client, or plain HTTP where that speaks another protocol than the
server.
A server lives as long as the process that started it, however that one ends.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

import bucket
import canaries

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "target" / "servers"
START_SECONDS = 30


class NotRun(Exception):
    """Why a place is not there."""


class Place(bucket.Objects):
    """Objects by key, below one URL that zkit is given."""

    name = scheme = ""
    writable = listable = True
    port = None

    def environment(self, port=None):
        """The variables by which zkit finds the server, or a proxy of it at a port."""
        return {}

    def remove_all(self, prefix):
        for key in self.keys(prefix):
            self.remove(key)

    def uploads(self, prefix):
        """Keys of objects that were begun in parts, and neither completed nor given up."""
        return []


class Local(Place):
    """A folder: what the others are compared with."""

    name = "local"

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def url(self, key):
        return str(self.root / key)

    def keys(self, prefix=""):
        files = (p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if p.is_file())
        return sorted(key for key in files if key.startswith(prefix))

    def read(self, key):
        return (self.root / key).read_bytes()

    def write(self, key, body):
        (self.root / key).parent.mkdir(parents=True, exist_ok=True)
        (self.root / key).write_bytes(body)

    def remove(self, key):
        (self.root / key).unlink()


class S3(Place):
    """moto, through boto3."""

    name, scheme = "S3", "s3"

    def __init__(self, port):
        self.port, self.bucket = port, bucket.Bucket(port)
        self.keys, self.read, self.write = self.bucket.keys, self.bucket.read, self.bucket.write
        self.remove, self.uploads = self.bucket.remove, self.bucket.uploads

    def url(self, key):
        return bucket.url(key)

    def environment(self, port=None):
        return bucket.environment(port or self.port)


class Gcs(Place):
    """moto and what makes it Google's, through the XML API itself: Google's own client speaks another one."""

    name, scheme = "GCS", "gs"

    def __init__(self, port):
        self.port = port

    def url(self, key):
        return f"gs://{bucket.NAME}/{key}"

    def environment(self, port=None):
        account = json.loads(canaries.ENVIRONMENT["GOOGLE_SERVICE_ACCOUNT_KEY"])
        account["gcs_base_url"] = f"http://127.0.0.1:{port or self.port}"
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "GOOGLE_ALLOW_HTTP": "true"}

    def request(self, method, key="", query="", body=None):
        url = f"http://127.0.0.1:{self.port}/{bucket.NAME}/{urllib.parse.quote(key)}{query}"
        headers = {"Content-Type": "application/octet-stream"}
        with _plain_http().open(urllib.request.Request(url, body, headers, method=method)) as answer:
            return answer.read()

    def listed(self, query, element):
        tree = xml.etree.ElementTree.fromstring(self.request("GET", query=query))
        return [found.text for found in tree.findall("{*}" + element + "/{*}Key")]

    def keys(self, prefix=""):
        found, after = [], ""
        while True:
            query = urllib.parse.urlencode({"list-type": 2, "prefix": prefix, "start-after": after})
            page = self.listed("?" + query, "Contents")
            if not page:
                return found
            found, after = found + page, page[-1]

    def uploads(self, prefix):
        return [key for key in self.listed("?uploads", "Upload") if key.startswith(prefix)]

    def read(self, key):
        return self.request("GET", key)

    def write(self, key, body):
        self.request("PUT", key, body=body)

    def remove(self, key):
        self.request("DELETE", key)


class Azure(Place):
    """Azurite, through Azure's own client."""

    name, scheme = "Azure", "az"
    ACCOUNT = "zkit"

    def __init__(self, port):
        from azure.storage.blob import ContainerClient

        self.port = port
        account = f"http://127.0.0.1:{port}/{self.ACCOUNT}"
        credential = {"account_name": self.ACCOUNT, "account_key": canaries.AZURE_KEY}
        self.client = ContainerClient(account, bucket.NAME, credential)
        self.client.create_container()

    def url(self, key):
        return f"az://{bucket.NAME}/{key}"

    def environment(self, port=None):
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": canaries.AZURE_KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port or self.port}/{self.ACCOUNT}",
        }

    def keys(self, prefix=""):
        return [blob.name for blob in self.client.list_blobs(name_starts_with=prefix)]

    def uploads(self, prefix):
        listed = self.client.list_blobs(name_starts_with=prefix, include=["uncommittedblobs"])
        return sorted({blob.name for blob in listed} - set(self.keys(prefix)))

    def read(self, key):
        return self.client.download_blob(key).readall()

    def write(self, key, body):
        self.client.upload_blob(key, body, overwrite=True)

    def remove(self, key):
        self.client.delete_blob(key)


class Web(Local):
    """A folder behind nginx, which gives parts of files and lists nothing; zkit reads there, and writes nowhere."""

    name, scheme = "HTTP", "http"
    writable = listable = False

    def __init__(self, root, port):
        super().__init__(root)
        self.port = port

    def url(self, key):
        # nginx asks for no password; zkit has one to keep
        return f"http://zkit:{canaries.HTTP_PASSWORD}@127.0.0.1:{self.port}/{urllib.parse.quote(key)}"


NAMES = ("local", "S3", "GCS", "Azure", "HTTP")


@contextlib.contextmanager
def started(name, folder):
    """A place by its name, for as long as the block runs. Errors: NotRun."""
    with contextlib.ExitStack() as stack:
        place = STARTERS[name](stack, pathlib.Path(folder))
        yield place
        if name in ("S3", "GCS", "Azure"):  # the others are folders of the tests
            bucket.search(place)


def _start_s3(stack, _folder):
    return S3(_port_said_by(_running(stack, sys.executable, _beside("s3_server.py"), "0", bucket.NAME)))


def _start_gcs(stack, _folder):
    return Gcs(_port_said_by(_running(stack, sys.executable, _beside("gcs_server.py"), "0", bucket.NAME)))


def _start_azure(stack, _folder):
    program = FOLDER / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        raise NotRun(_why("azurite"))
    flags = ("--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence")
    accounts = {"AZURITE_ACCOUNTS": f"{Azure.ACCOUNT}:{canaries.AZURE_KEY}"}
    process = _running(stack, program, *flags, "--skipApiVersionCheck", "--disableTelemetry", **accounts)
    return Azure(_port_said_by(process, r"listens on http://127\.0\.0\.1:(\d+)"))


NGINX = """
daemon off; pid {folder}/nginx.pid; error_log stderr crit; worker_processes 1; {user}
events {{ worker_connections 256; }}
http {{
  access_log off; absolute_redirect off;
  client_body_temp_path {folder}/temp; proxy_temp_path {folder}/temp; fastcgi_temp_path {folder}/temp;
  uwsgi_temp_path {folder}/temp; scgi_temp_path {folder}/temp;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; }}
}}
"""


def _start_web(stack, folder):
    found = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    program = pathlib.Path(found or FOLDER / "nginx" / "usr" / "sbin" / "nginx")
    if not program.exists():
        raise NotRun(_why("nginx"))
    (folder / "www").mkdir(parents=True)
    port = _free_port()
    user = "user root;" if os.getuid() == 0 else ""
    configuration = folder / "nginx.conf"
    configuration.write_text(NGINX.format(folder=folder, port=port, user=user))
    process = _running(stack, program, "-p", folder, "-c", configuration, "-e", "stderr")
    limit = time.monotonic() + START_SECONDS
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > limit:
            raise NotRun("nginx did not start")
        time.sleep(0.02)
    return Web(folder / "www", port)


STARTERS = {
    "local": lambda _stack, folder: Local(folder),
    "S3": _start_s3,
    "GCS": _start_gcs,
    "Azure": _start_azure,
    "HTTP": _start_web,
}


def _beside(script):
    return pathlib.Path(__file__).with_name(script)


def _why(server):
    missing = FOLDER / f"{server}.missing"
    return missing.read_text() if missing.exists() else f"{server} is not installed: `cargo xtask test` does it"


def _end_with_parent():
    """Called in the child: the kernel ends it when its parent is gone, killed or not."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _running(stack, *command, **variables):
    """A process that ends with the stack, or with this process."""
    process = subprocess.Popen(
        [os.fspath(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **variables},
        preexec_fn=_end_with_parent,
    )
    stack.callback(_end, process)
    return process


def _end(process):
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _port_said_by(process, pattern=r"^(\d+)$"):
    """The port that a server prints once it listens."""
    # one that neither says its port nor ends is ended: then there are no more lines
    too_long = threading.Timer(START_SECONDS, process.kill)
    too_long.start()
    for line in process.stdout:
        if said := re.search(pattern, line.strip()):
            too_long.cancel()
            # what it says of each request is read on, so that it never waits for a reader
            threading.Thread(target=lambda: [None for _ in process.stdout], daemon=True).start()
            return int(said[1])
    too_long.cancel()
    raise NotRun(f"{pathlib.Path(process.args[0]).name} did not start")


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _plain_http():
    """An opener that asks no proxy."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))
