"""A server that speaks the XML API of Google Cloud Storage on loopback: moto's S3, and in front of it what differs.

The two protocols share reads, writes, listings and uploads in parts. Of their own are generations: each write gives an
object a new number, and `x-goog-if-generation-match` names the one that a write expects, 0 for none. What a client says of an
object is in headers `x-goog-meta-NAME`.

python gcs_server.py PORT BUCKET...      (port 0 takes a free one; the port is printed once it listens)
"""

import itertools
import sys
import threading
import time
from urllib.parse import parse_qs, unquote

from moto.server import DomainDispatcherApplication, create_backend_app

from s3_server import SIGNED, make_buckets, serve


class Generations:
    """The WSGI application: conditions are looked at and taken effect of under one lock, as if in one step."""

    def __init__(self, inner):
        self.inner = inner
        self.lock = threading.RLock()
        self.known = {}
        self.numbers = itertools.count(int(time.time() * 1e6))

    def __call__(self, environ, start):
        request = Request(environ)
        environ["HTTP_AUTHORIZATION"] = SIGNED  # moto reads a signature, and never checks it
        if not request.changes:
            return self.passed_on(request, start)
        with self.lock:
            return [b"".join(self.passed_on(request, start))]

    def passed_on(self, request, start):
        environ = request.environ
        for name in [name for name in environ if name.startswith("HTTP_X_GOOG_META_")]:
            environ[name.replace("GOOG", "AMZ", 1)] = environ.pop(name)
        expected = environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None)
        if expected is not None and int(expected) != self.known.get(request.object, 0):
            return refused(start, "412 Precondition Failed", "PreconditionFailed")
        if request.removes and request.object not in self.known:
            return refused(start, "404 Not Found", "NoSuchKey")

        def started(status, headers, *error):
            if status.startswith("2"):
                if request.writes:
                    self.known[request.object] = next(self.numbers)
                elif request.removes:
                    self.known.pop(request.object, None)
            headers = [(name.replace("x-amz-meta-", "x-goog-meta-"), value) for name, value in headers]
            if request.object in self.known:
                headers = [*headers, ("x-goog-generation", str(self.known[request.object]))]
            return start(status, headers, *error)

        return self.inner(environ, started)


class Request:
    """What a request does to an object."""

    def __init__(self, environ):
        self.environ = environ
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        # the web server leaves slashes that are escaped as they are, and clients escape them as they like
        bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
        self.object = (bucket, key) if key else None
        method, in_parts = environ["REQUEST_METHOD"], "uploadId" in query
        self.writes = bool(key) and ((method == "PUT" and not in_parts) or (method == "POST" and in_parts))
        self.removes = bool(key) and method == "DELETE" and not in_parts
        self.changes = self.writes or self.removes


def refused(start, status, code):
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def main(port, *buckets):
    application = Generations(DomainDispatcherApplication(create_backend_app))
    make_buckets(application, buckets)
    serve(application, int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
