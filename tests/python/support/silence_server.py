"""One small server on loopback that is S3, Google's XML API, Azure's blobs and a web server, and breaks one answer a store.

    with Server() as server:
        server.put("cell-7", files, "t2m/.zattrs", "403")     # files: {key: bytes}
        server.url("S3", "cell-7"), server.environment("S3")

The name of the cell is the first part of the key, so that any number of stores are read at once, each with its own fault.
`test_silence.py` compares it with moto, Azurite and nginx.
"""

import base64
import contextlib
import hashlib
import http.server
import json
import socket
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

import canaries

PLACES = ("S3", "GCS", "Azure", "HTTP")
BUCKET, ACCOUNT = {"S3": "s3", "GCS": "gcs", "Azure": "blobs", "HTTP": "www"}, "zkit"
STORE = "s.zarr"
WRITTEN = "Wed, 01 Jan 2020 00:00:00 GMT"
HTML = b"<!DOCTYPE html><html><body><h1>Please sign in to this network</h1></body></html>"
ENDLESS_BYTES = 1 << 34
SIGN_IN = "/sign-in"
REDIRECTED = {"302 to a sign-in page": SIGN_IN, "302 to where nothing is": "/www/nowhere/x"}

STATUS = {
    "401 unauthorized": 401,
    "403 forbidden": 403,
    "404 though it is listed": 404,
    "410 gone": 410,
    "204 no content": 204,
    "304 not modified": 304,
    "416 range not satisfiable": 416,
    "429 for ever": 429,
    "500 for ever": 500,
    "503 for ever": 503,
}
# Answers to a request for an object, by family. "absent" is in no listing either.
OBJECT_FAULTS = {
    "refused": ("403 forbidden", "401 unauthorized"),
    "gone": ("404 though it is listed", "410 gone", "absent"),
    "odd status": ("304 not modified", "204 no content", "416 range not satisfiable"),
    "refused for ever": ("503 for ever", "500 for ever", "429 for ever"),
    "redirected": ("302 to a sign-in page", "302 to where nothing is", "302 loop"),
    "another body": ("200 with HTML", "flipped bit", "shorter than listed"),
    "body without end": ("body is cut", "cut in a chunked body", "endless body"),
    "harmless": ("no Content-Length", "other entity tag than listed"),
}
FAMILIES = (*OBJECT_FAULTS, "listing")
LISTING_FAULTS = (
    "listing: 403 forbidden",
    "listing: 500 for ever",
    "listing: 200 with HTML",
    "listing: malformed XML",
    "listing: body is cut",
    "listing: 302 loop",
    "listing: endless, one token",
    "listing: endless, other tokens",
)


@dataclass
class Served:
    """A store and what is wrong with one key of it (or with its listings)."""

    files: dict
    key: str | None = None
    fault: str | None = None
    pages: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Server:
    def __init__(self):
        self.stores = {}
        self.running = None

    def __enter__(self):
        handler = type("Handler", (_Handler,), {"owner": self})
        self.running = _Listener(("127.0.0.1", 0), handler)
        self.port = self.running.server_address[1]
        threading.Thread(target=self.running.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.running.shutdown()
        self.running.server_close()

    def put(self, cell, files, key=None, fault=None):
        self.stores[cell] = Served(dict(files), key, fault)

    def url(self, place, cell, below=""):
        path = f"{BUCKET[place]}/{cell}/{STORE}{below}"
        scheme = {"S3": "s3", "GCS": "gs", "Azure": "az"}.get(place)
        return f"{scheme}://{path}" if scheme else f"http://127.0.0.1:{self.port}/{path}"

    def environment(self, place):
        root = f"http://127.0.0.1:{self.port}"
        account = json.loads(canaries.ENVIRONMENT["GOOGLE_SERVICE_ACCOUNT_KEY"])
        return {
            "S3": {
                "AWS_ENDPOINT_URL": root,
                "AWS_ACCESS_KEY_ID": "t",
                "AWS_SECRET_ACCESS_KEY": canaries.AWS_SECRET,
                "AWS_REGION": "us-east-1",
                "AWS_ALLOW_HTTP": "true",
            },
            "GCS": {
                "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**account, "gcs_base_url": root}),
                "GOOGLE_ALLOW_HTTP": "true",
            },
            "Azure": {
                "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": canaries.AZURE_KEY,
                "AZURE_STORAGE_ENDPOINT": f"{root}/{ACCOUNT}",
            },
            "HTTP": {},
        }[place]


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        """Says nothing: clients hang up when they have read enough."""


def tag_of(body):
    return '"' + hashlib.md5(body).hexdigest() + '"'


def flipped(body):
    """One bit of a byte in the middle, which is no text afterwards."""
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 0x80]) + body[middle + 1 :]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    owner = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.answer()

    do_HEAD = do_GET

    def answer(self):
        if self.path == SIGN_IN:
            return self.send(200, HTML, {"Content-Type": "text/html"})
        url = urllib.parse.urlsplit(self.path)
        query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
        path = urllib.parse.unquote(url.path).lstrip("/").removeprefix(f"{ACCOUNT}/")
        bucket, _, key = path.partition("/")
        lists = "list-type" in query or query.get("comp") == "list"
        cell, _, below = (query.get("prefix", "") if lists else key).partition("/")
        store = self.owner.stores.get(cell)
        if store is None:
            return self.send(404, b"<Error><Code>NoSuchKey</Code></Error>")
        if bucket == BUCKET["HTTP"] and (not below or below.endswith("/")):
            return self.send(403, b"no listing")
        if lists:
            return self.listing(bucket, cell, store, query)
        key = below.removeprefix(f"{STORE}/")
        fault = store.fault if key == store.key else None
        if key not in store.files or fault == "absent":
            return self.send(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return self.object(store.files[key], fault)

    # ---- objects

    def object(self, body, fault):
        headers = {"ETag": tag_of(body), "Last-Modified": WRITTEN, "Accept-Ranges": "bytes"}
        headers["x-goog-hash"] = "md5=" + base64.b64encode(hashlib.md5(body).digest()).decode()
        headers["x-goog-generation"] = "1"
        if fault in STATUS:
            return self.send(STATUS[fault], b"", {"Content-Range": f"bytes */{len(body)}"} if "416" in fault else {})
        if fault in REDIRECTED:
            return self.send(302, b"", {"Location": f"http://127.0.0.1:{self.owner.port}{REDIRECTED[fault]}"})
        if fault == "302 loop":
            return self.send(302, b"", {"Location": self.path})
        if fault == "200 with HTML":
            return self.send(200, HTML, {"Content-Type": "text/html"})
        if fault == "flipped bit":
            body = flipped(body)
        if fault == "shorter than listed":
            body = body[: len(body) // 2]
        if fault == "other entity tag than listed":
            headers["ETag"] = '"' + "0" * 32 + '"'
            headers.pop("x-goog-hash")
        wanted = self.headers.get("If-Match")
        if wanted and wanted != headers["ETag"]:
            return self.send(412, b"")
        status = 200
        if asked := self.headers.get("Range"):
            first, last = asked.removeprefix("bytes=").split("-")
            start = int(first) if first else max(len(body) - int(last), 0)
            end = min(int(last) + 1, len(body)) if first and last else len(body)
            if start >= len(body):
                return self.send(416, b"", {"Content-Range": f"bytes */{len(body)}"})
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(body)}"
            body, status = body[start:end], 206
        if self.command == "HEAD" or fault not in BROKEN_BODIES:
            return self.send(status, body, headers)
        return BROKEN_BODIES[fault](self, status, body, headers)

    def cut(self, status, body, headers):
        self.head(status, {**headers, "Content-Length": str(len(body))})
        self.wfile.write(body[: len(body) // 2])
        self.hang_up()

    def cut_chunked(self, status, body, headers):
        self.head(status, {**headers, "Transfer-Encoding": "chunked"})
        half = body[: len(body) // 2]
        self.wfile.write(b"%x\r\n%s\r\n" % (len(half), half))
        self.hang_up()

    def endless(self, status, _body, headers):
        self.head(status, {**headers, "Content-Length": str(ENDLESS_BYTES)})
        block = b" " * (1 << 16)
        for _ in range(ENDLESS_BYTES // len(block)):
            self.wfile.write(block)
            time.sleep(0.005)  # a server that leaves others a core

    def no_length(self, status, body, headers):
        self.head(status, {**headers, "Connection": "close"})
        self.wfile.write(body)
        self.hang_up()

    # ---- listings

    def listing(self, bucket, cell, store, query):
        fault = (store.fault or "").removeprefix("listing: ") if (store.fault or "").startswith("listing: ") else None
        if fault in STATUS:
            return self.send(STATUS[fault], b"")
        if fault == "302 loop":
            return self.send(302, b"", {"Location": self.path})
        if fault == "200 with HTML":
            return self.send(200, HTML, {"Content-Type": "text/html"})
        keys, folders = self.listed(cell, store, query)
        token = ""
        if fault and fault.startswith("endless"):
            with store.lock:
                store.pages += 1
                token = "same" if fault == "endless, one token" else f"page-{store.pages}"
        body = (_azure_page if bucket == BUCKET["Azure"] else _s3_page)(keys, folders, token)
        if fault == "malformed XML":
            return self.send(200, body.replace(b"</Key>", b"</Kex>").replace(b"</Name>", b"</Nam>"), XML)
        if fault == "body is cut":
            return self.cut(200, body, XML)
        return self.send(200, body, XML)

    def listed(self, cell, store, query):
        """The objects below the prefix with their bodies, and the folders, up to the delimiter."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        after = query.get("start-after") or query.get("continuation-token") or ""
        keys, folders = [], set()
        for key, body in sorted(store.files.items()):
            full = f"{cell}/{STORE}/{key}"
            if not full.startswith(prefix) or full <= after or (store.fault == "absent" and key == store.key):
                continue
            rest = full[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
            else:
                keys.append((full, body))
        return keys, sorted(folders)

    # ---- the wire

    def head(self, status, headers):
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send(self, status, body, headers=None):
        headers = dict(headers or {})
        if status not in (204, 304):
            headers["Content-Length"] = str(len(body))
        self.head(status, headers)
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(body)
        self.wfile.flush()

    def hang_up(self):
        self.wfile.flush()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)


XML = {"Content-Type": "application/xml"}
BROKEN_BODIES = {
    "body is cut": _Handler.cut,
    "cut in a chunked body": _Handler.cut_chunked,
    "endless body": _Handler.endless,
    "no Content-Length": _Handler.no_length,
}


def _s3_page(keys, folders, token):
    contents = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>{escape(tag_of(body))}</ETag><Size>{len(body)}</Size></Contents>"
        for key, body in keys
    )
    prefixes = "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return (
        f"<?xml version='1.0'?><ListBucketResult><IsTruncated>{'true' if token else 'false'}</IsTruncated>"
        f"{more}{contents}{prefixes}</ListBucketResult>"
    ).encode()


def _azure_page(keys, folders, token):
    blobs = "".join(
        f"<Blob><Name>{escape(key)}</Name><Properties><Creation-Time>{WRITTEN}</Creation-Time>"
        f"<Last-Modified>{WRITTEN}</Last-Modified><Etag>{tag_of(body).strip(chr(34))}</Etag>"
        f"<Content-Length>{len(body)}</Content-Length><Content-Type>application/octet-stream</Content-Type>"
        "<BlobType>BlockBlob</BlobType></Properties></Blob>"
        for key, body in keys
    )
    prefixes = "".join(f"<BlobPrefix><Name>{escape(one)}</Name></BlobPrefix>" for one in folders)
    return (
        "<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs>"
        f"{blobs}{prefixes}</Blobs><NextMarker>{token}</NextMarker></EnumerationResults>"
    ).encode()
