"""Servers that answer oddly: no listing goes on for ever or ends early, and no odd answer makes an object absent."""

import contextlib
import http.server
import itertools
import json
import threading
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest
import zarr

QUICK = ("--timeout", "5s")
SECONDS = 60


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """A v2 store without consolidated metadata, as {key: bytes}."""
    path = tmp_path_factory.mktemp("hostile") / "s.zarr"
    array = zarr.open_group(path, mode="w", zarr_format=2).create_array(
        "t2m", shape=(4,), chunks=(2,), dtype="<i2", fill_value=7, compressors=None
    )
    array[:] = np.arange(4)
    array.attrs.update({"_ARRAY_DIMENSIONS": ["time"], "scale_factor": 0.01, "units": "K"})
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.server.requests += 1
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        key = unquote(url.path).removeprefix("/b").lstrip("/").removeprefix("s.zarr/")
        if "list-type" in query or query.get("comp") == "list":
            status, headers, body = self.server.listing(query)
        else:
            status, headers, body = self.server.answer(key) or self.whole(key)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)
        self.close_connection |= headers.get("Content-Length", str(len(body))) != str(len(body))

    def whole(self, key):
        if key not in self.server.objects:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        return 200, {"Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT", "ETag": '"x-1"'}, self.server.objects[key]


@contextlib.contextmanager
def served(objects):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.objects, server.requests = objects, 0
    server.answer = lambda key: None
    server.listing = lambda query: listing(objects, query)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server(objects):
    with served(objects) as running:
        yield running


def entry(key, size=1):
    date = "<LastModified>2020-01-01T00:00:00.000Z</LastModified>"
    return f'<Contents><Key>s.zarr/{key}</Key>{date}<ETag>"x-1"</ETag><Size>{size}</Size></Contents>'


def xml(entries, token=None):
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    truncated = f"<IsTruncated>{str(bool(token)).lower()}</IsTruncated>"
    text = f"<?xml version='1.0'?><ListBucketResult><Name>b</Name>{truncated}{more}{entries}</ListBucketResult>"
    return 200, {"Content-Type": "application/xml"}, text.encode()


def listing(objects, query, token=None):
    """The honest listing of all objects in one page."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
    keys = sorted(key for key in objects if f"s.zarr/{key}".startswith(prefix))
    if delimiter:
        below = {key: f"s.zarr/{key}".removeprefix(prefix) for key in keys}
        folders = sorted({rest.split("/")[0] for rest in below.values() if "/" in rest})
        entries = "".join(f"<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>" for name in folders)
        return xml(entries + "".join(entry(key) for key, rest in below.items() if "/" not in rest), token)
    return xml("".join(entry(key, len(objects[key])) for key in keys), token)


def s3(server):
    return "s3://b/s.zarr", {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_REGION": "us-east-1",
    }


def google(server):
    account = {
        "gcs_base_url": f"http://127.0.0.1:{server.server_port}",
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    return "gs://b/s.zarr", {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "GOOGLE_ALLOW_HTTP": "true"}


def azure(server):
    return "az://b/s.zarr", {"AZURE_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "AZURE_ALLOW_HTTP": "true"}


def azure_page(keys, marker):
    blobs = "".join(
        f"<Blob><Name>s.zarr/{key}</Name><Properties><Last-Modified>Wed, 01 Jan 2020 00:00:00 GMT</Last-Modified>"
        f"<Content-Length>1</Content-Length><Content-Type>x</Content-Type><Etag>x</Etag></Properties></Blob>"
        for key in keys
    )
    text = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
    return 200, {"Content-Type": "application/xml"}, text.encode()


def said(outcome):
    return outcome.err + outcome.stdout.decode()


numbers = itertools.count()

ENDLESS = {
    "same token": (s3, lambda objects, query: listing(objects, query, "again"), "token twice"),
    "same page": (s3, lambda objects, query: listing(objects, query, f"t{next(numbers)}"), "same page twice"),
    "empty pages": (s3, lambda objects, query: xml("", f"t{next(numbers)}"), "no new key"),
    "keys that go back": (s3, lambda objects, query: xml(entry(f"z{10**9 - next(numbers)}"), f"t{next(numbers)}"), "new key"),
    "google": (google, lambda objects, query: listing(objects, query, "again"), "token twice"),
    "azure": (azure, lambda objects, query: azure_page([".zgroup"], "again"), "token twice"),
    "azure, empty": (azure, lambda objects, query: azure_page([], f"m{next(numbers)}"), "no new key"),
}  # fmt: skip


@pytest.mark.parametrize("fault", ENDLESS)
@pytest.mark.parametrize("command", ["inspect", "audit", "digest"])
def test_a_listing_that_goes_on_for_ever_is_refused_and_named(zkit, server, fault, command):
    place, page, why = ENDLESS[fault]
    url, environment = place(server)
    server.listing = lambda query: page(server.objects, query)
    outcome = zkit(command, url, *QUICK, timeout=SECONDS, **environment)
    assert outcome.code == 3 and why in said(outcome), outcome.err
    assert "absent" not in outcome.err


BROKEN = {
    "a page for people": (200, {"Content-Type": "text/html"}, b"<html><body>Sign in</body></html>"),
    "nothing": (200, {}, b""),
    "no content": (204, {"Content-Length": None}, b""),
    "another document": (200, {}, b"<Error><Code>SlowDownForEver</Code></Error>"),
    "cut off": (200, {}, xml(entry(".zgroup"))[2][:-30]),
    "more, and no token": (200, {}, xml("", "x")[2].replace(b"<NextContinuationToken>x</NextContinuationToken>", b"")),
    "a negative size": xml(entry("t2m/.zarray", -1)),
    "an absurd size": xml(entry("t2m/.zarray", 2**70)),
    "a key elsewhere": xml(entry("x").replace("s.zarr/x", "other.zarr/x")),
    "a key that is no key": xml(entry("a//b")),
}


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("command", ["inspect", "audit", "digest", "recompress"])
def test_a_listing_that_is_none_says_nothing_of_what_is_absent(zkit, server, tmp_path, fault, command):
    url, environment = s3(server)
    server.listing = lambda query: BROKEN[fault]
    destination = [tmp_path / "copy.zarr"] if command == "recompress" else []
    outcome = zkit(command, url, *destination, *QUICK, timeout=SECONDS, **environment)
    assert outcome.code == 3, said(outcome)
    assert "list" in said(outcome)
    assert not (tmp_path / "copy.zarr").exists()


PAGE = b"<!DOCTYPE html><html><body>Sign in</body></html>"
ODD = {
    "204": (204, {"Content-Length": None}, b""),
    "202": (202, {}, b""),
    "304": (304, {"Content-Length": None}, b""),
    "403": (403, {}, b"<Error><Code>AccessDenied</Code></Error>"),
    "405": (405, {}, b""),
    "410": (410, {}, b""),
    "416": (416, {}, b""),
    "a page for people": (200, {"Content-Type": "text/html; charset=utf-8", "ETag": '"x-1"',
                                "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}, PAGE),
    "shorter than it says": (200, {"Content-Length": "400", "ETag": '"x-1"',
                                   "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}, b"{"),
    "of no length": (200, {"Content-Length": None, "ETag": '"x-1"'}, b"{}"),
    "a bucket that is gone": (404, {}, b"<Error><Code>NoSuchBucket</Code></Error>"),
}  # fmt: skip


def web(server):
    return f"http://127.0.0.1:{server.server_port}/b/s.zarr", {}


@pytest.mark.parametrize("fault", ODD)
@pytest.mark.parametrize("place", [s3, web], ids=["s3", "web"])
@pytest.mark.parametrize("key", ["t2m/.zarray", "t2m/1"])
def test_an_odd_answer_is_an_error_and_never_an_absent_object(zkit, server, fault, place, key):
    if (place, key) == (web, "t2m/.zarray"):
        key = ".zmetadata"  # without it nothing says which arrays a web server has
        server.objects = {**server.objects, ".zmetadata": consolidated(server.objects)}
    elif place is web:
        server.objects = {**server.objects, ".zmetadata": consolidated(server.objects)}
    url, environment = place(server)
    sound = zkit("digest", url, *QUICK, "--format", "json", **environment)
    assert sound.code == 0, sound.err
    server.answer = lambda asked: ODD[fault] if asked == key else None
    outcome = zkit("digest", url, *QUICK, "--format", "json", timeout=60, **environment)
    assert outcome.code == 3, said(outcome)
    assert not (outcome.stdout and any(array["sha256"] for array in outcome.json()["arrays"]))


def consolidated(objects):
    names = (".zgroup", ".zarray", ".zattrs")
    metadata = {key: json.loads(text) for key, text in objects.items() if key.rsplit("/")[-1] in names}
    return json.dumps({"zarr_consolidated_format": 1, "metadata": metadata}).encode()
