"""Hosts that references name: none is asked that is this machine or a neighbour, by address, name or redirect.

The tests run in a network of their own, where they are at every address; where that may not be made they are skipped.
"""

import json
import pathlib
import subprocess
import sys

import pytest

OWN_NETWORK = ["unshare", "--net", "--mount"]
ADDRESSES = ["93.184.216.34/32", "10.1.2.3/32", "169.254.169.254/32", "100.64.0.9/32", "192.0.2.7/32"]
ADDRESSES_6 = ["fd00::5/128", "64:ff9b::a9fe:a9fe/128", "2002:7f00:1::1/128"]
HOSTS = """127.0.0.1 localhost evil.example.com
93.184.216.34 public.example.com
169.254.169.254 meta.example.com
10.1.2.3 ten.example.com
"""

REFUSED = [
    "http://127.0.0.1/x", "http://evil.example.com/x", "http://ten.example.com/x", "http://meta.example.com/x",
    "http://10.1.2.3/x", "http://100.64.0.9/x", "http://192.0.2.7/x", "http://169.254.169.254/x",
    "http://[::ffff:169.254.169.254]/x", "http://[::ffff:127.0.0.1]/x", "http://[::ffff:10.1.2.3]/x",
    "http://\uff11\uff16\uff19.254.169.254/x", "http://\u2460\u2465\u2468.254.169.254/x",
    "http://169\u3002254\u3002169\u3002254/x", "http://\u24dbocalhost/x", "http://2852039166/x", "http://0/x",
    "http://[::]/x", "http://[fd00::5]/x", "http://[64:ff9b::a9fe:a9fe]/x", "http://[2002:7f00:1::1]/x",
]  # fmt: skip
REDIRECTS = [
    "http://93.184.216.34/to?http://127.0.0.1/s", "http://93.184.216.34/to?http://169.254.169.254/s",
    "http://93.184.216.34/to?http://evil.example.com/s", "http://public.example.com/to?http://10.1.2.3/s",
    "http://public.example.com/to?http://public.example.com/to?http://ten.example.com/s",
]  # fmt: skip


def references(folder, target):
    array = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "compressor": None, "filters": None,
             "fill_value": 0, "order": "C"}  # fmt: skip
    refs = {".zgroup": '{"zarr_format":2}', "a/.zarray": json.dumps(array), "a/0": [target, 0, 16]}
    file = folder / "refs.json"
    file.write_text(json.dumps({"version": 1, "refs": refs}))
    return file


def inside(zkit, folder):
    """What each target led to, as {target: [(address, path)]}: runs in the network of its own."""
    import http.server
    import os
    import socket
    import threading

    def sh(command):
        subprocess.run(command, shell=True, check=False, capture_output=True)

    sh("ip link set lo up")
    for address in ADDRESSES:
        sh(f"ip addr add {address} dev lo")
    for address in ADDRESSES_6:
        sh(f"ip -6 addr add {address} dev lo")
    (folder / "hosts").write_text(HOSTS)
    (folder / "resolv").write_text("")
    sh(f"mount --bind {folder}/hosts /etc/hosts; mount --bind {folder}/resolv /etc/resolv.conf")
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            asked.append((self.request.getsockname()[0], self.path))
            status, headers = 200, {"Content-Length": "16"}
            if self.path.startswith("/to?"):
                status, headers = 302, {"Location": self.path.split("?", 1)[1], "Content-Length": "0"}
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if status == 200:
                self.wfile.write(b"\1\0\0\0" * 4)

    class Everywhere(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6

        def server_bind(self):
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    threading.Thread(target=Everywhere(("::", 80), Handler).serve_forever, daemon=True).start()
    found = {}

    def run(name, *arguments):
        asked.clear()
        outcome = subprocess.run(
            [zkit, *arguments, "--timeout", "5s", "--anonymous"], capture_output=True, timeout=60, check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        found[name] = {
            "asked": list(asked),
            "code": outcome.returncode,
            "said": (outcome.stdout + outcome.stderr).decode(),
        }

    for target in ["http://93.184.216.34/x", "http://public.example.com/x", *REFUSED, *REDIRECTS]:
        file = references(folder, target)
        run(target, "audit", file, "--follow-references", "--fail-on", "never")
    ten = references(folder, "http://ten.example.com/data/x")
    run("followed below a prefix", "audit", ten, "--follow-references", "--allow-prefix", "http://ten.example.com/data")
    run("read below a prefix", "digest", ten, "--allow-prefix", "http://ten.example.com/data")
    away = references(folder, "http://ten.example.com/to?http://10.1.2.3/s")
    run("redirect out of a prefix", "digest", away, "--allow-prefix", "http://ten.example.com/")
    print(json.dumps(found))


@pytest.fixture(scope="module")
def found(zkit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hosts")
    check = subprocess.run([*OWN_NETWORK, "true"], capture_output=True, check=False)
    if check.returncode != 0:
        pytest.skip(f"no network of its own: {check.stderr.decode().strip()}")
    run = subprocess.run([*OWN_NETWORK, sys.executable, __file__, zkit.path, folder], capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return json.loads(run.stdout)


def test_public_hosts_are_asked(found):
    assert found["http://93.184.216.34/x"]["asked"] and found["http://public.example.com/x"]["asked"], found


@pytest.mark.parametrize("target", REFUSED)
def test_no_neighbour_is_asked(found, target):
    assert found[target]["asked"] == []


@pytest.mark.parametrize("target", REDIRECTS)
def test_no_redirect_leads_to_a_neighbour(found, target):
    asked = found[target]["asked"]
    assert asked and all(address.endswith("93.184.216.34") and path.startswith("/to?") for address, path in asked)


def test_a_prefix_allows_its_host_and_nothing_that_it_redirects_to(found):
    for name in ("followed below a prefix", "read below a prefix"):
        assert found[name]["asked"] and "/data/x" in found[name]["asked"][0][1], found[name]
    away = found["redirect out of a prefix"]
    assert away["code"] == 3 and all(path.startswith("/to?") for _, path in away["asked"])
    assert "`ten.example.com` redirects to `10.1.2.3`" in away["said"]


if __name__ == "__main__":
    inside(sys.argv[1], pathlib.Path(sys.argv[2]))
