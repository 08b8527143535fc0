"""A web server of a folder, which gives parts of files too: Python's own gives whole ones alone."""

import contextlib
import functools
import http.server
import os
import pathlib
import threading


class Ranges(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, parts of files too; notes each request, its path and the range or that it was a HEAD, and says so."""

    seen: list
    watch: callable

    def note(self, how):
        self.seen.append((self.path, how))
        self.watch(self.path)

    def do_HEAD(self):
        self.note("HEAD")
        super().do_HEAD()

    def do_GET(self):
        self.note(self.headers.get("Range"))
        asked = self.headers.get("Range")
        path = self.translate_path(self.path)
        if not asked or not os.path.isfile(path):
            return super().do_GET()
        data = pathlib.Path(path).read_bytes()
        if not data:
            self.send_error(416)
            return None
        first, last = asked.removeprefix("bytes=").split("-")
        first, last = (
            (int(first), int(last or len(data) - 1)) if first else (max(len(data) - int(last), 0), len(data) - 1)
        )
        body = data[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(root, watch=lambda path: None):
    """The address of a server of the folder, and the requests that it saw: path, and range or `HEAD`. `watch` is called with
    each path before it is answered."""
    seen = []
    notes = {"seen": seen, "watch": staticmethod(watch)}
    handler = functools.partial(type("Handler", (Ranges,), notes), directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}", seen
        running.shutdown()
