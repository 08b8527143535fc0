"""An HTTP proxy on loopback that breaks answers by rule, and counts what passes through it.

    with FaultProxy(upstream_port) as proxy:
        proxy.rules = [{"path": r"\\.zmetadata$", "status": 403}]
        ... requests to 127.0.0.1:proxy.port ...
        proxy.requests            # [(method, path, status)] of the answers so far

A rule fits a request by `method` and by `path` (a regular expression), at most `times` times; the first that fits acts:
  {"status": 503}        answer so without asking upstream,         {"drop": True}       close without an answer
                         with {"body": b"...", "headers": [(name, value)]} if those are given
  {"truncate": 100}      the right length, but 100 bytes of body    {"flip": 40}         flip one bit of byte 40
  {"lost": True}         ask upstream, then close without an answer: the request took effect
  {"stall": 100, "seconds": 60}  100 bytes of body, then nothing for a minute, then close
  {"delay": 0.5}         wait first; may be added to any rule
Where none fits, `proxy.fault` is asked, with the method and the path, and may return a rule.
"""

import http.client
import http.server
import re
import threading
import time
from urllib.parse import unquote, urlsplit

import canaries

BODY_OF_ERROR = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>made by the proxy</Message></Error>"
CODES = {
    403: b"AccessDenied",
    404: b"NoSuchKey",
    429: b"TooManyRequests",
    500: b"InternalError",
    503: b"SlowDown",
}
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


def fits(pattern, path):
    """Whether a path fits, as it is or without escapes: some clients escape slashes."""
    return bool(re.search(pattern, path) or re.search(pattern, unquote(path)))


class FaultProxy:
    def __init__(self, upstream_port):
        self.upstream_port = upstream_port
        self._lock = threading.Lock()
        self.reset()
        self._arrival = threading.Condition()
        self._in_hand = 0
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def reset(self, *rules):
        self.rules, self.requests, self._hits = list(rules), [], {}
        self.seen, self.headers = [], []
        self.fault = lambda method, path: None

    def wait_for(self, pattern, seconds, times=1, method=None, answered=False):
        """Returns once requests (of one method) whose path fits `pattern` have arrived so many times, or were answered."""

        def count():
            known = [request[:2] for request in self.requests] if answered else self.seen
            return sum(m == (method or m) and fits(pattern, path) for m, path in known)

        with self._arrival:
            in_time = self._arrival.wait_for(lambda: count() >= times, seconds)
        assert in_time, f"no request for {pattern} within {seconds} s"

    def wait_until_idle(self, seconds):
        """Returns once nothing is in hand: every request that arrived was answered, or its client is gone."""
        with self._arrival:
            idle = self._arrival.wait_for(lambda: self._in_hand == 0, seconds)
        assert idle, f"a request is in hand after {seconds} s"

    def arrived(self, method, path):
        with self._arrival:
            self.seen.append((method, path))
            self._in_hand += 1
            self._arrival.notify_all()

    def ended(self):
        with self._arrival:
            self._in_hand -= 1
            self._arrival.notify_all()

    @staticmethod
    def rule_fits(rule, method, path):
        return rule.get("method", method) == method and fits(rule.get("path", ""), path)

    def rule_for(self, method, path):
        with self._lock:
            for number, rule in enumerate(self.rules):
                if not self.rule_fits(rule, method, path):
                    continue
                self._hits[number] = self._hits.get(number, 0) + 1
                if self._hits[number] <= rule.get("times", 1 << 60):
                    return rule
            return self.fault(method, path) or {}


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # many connect at once, and whoever is not let in waits for a second
    request_queue_size = 1024


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def log_message(self, *_):
        pass

    def handle_any(self):
        self.owner.arrived(self.command, self.path)
        self.owner.headers.append({name.lower(): value for name, value in self.headers.items()})
        try:
            self.pass_on()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client is gone
        finally:
            self.owner.ended()

    def pass_on(self):
        rule = self.owner.rule_for(self.command, self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True  # no server takes a part of a body
            return
        canaries.search(body, f"sent {self.command} {self.path}")
        time.sleep(rule.get("delay", 0))
        if rule.get("drop"):
            self.owner.requests.append((self.command, self.path, None))
            self.close_connection = True
            return
        if "status" in rule:
            made = BODY_OF_ERROR % CODES.get(rule["status"], b"Fault")
            status, headers, answer = rule["status"], rule.get("headers", []), rule.get("body", made)
        else:
            status, headers, answer = self.ask_upstream(body)
        self.owner.requests.append((self.command, self.path, status))
        if rule.get("lost"):
            self.close_connection = True
            return
        if "flip" in rule and answer:
            at = rule["flip"] % len(answer)
            answer = answer[:at] + bytes([answer[at] ^ 1]) + answer[at + 1 :]
        self.answer(status, headers, answer, rule.get("truncate", rule.get("stall")), rule.get("seconds", 0))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def ask_upstream(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.owner.upstream_port, timeout=30)
        url = urlsplit(self.path)
        connection.request(self.command, url.path + (f"?{url.query}" if url.query else ""), body, dict(self.headers))
        response = connection.getresponse()
        headers = [(k, v) for k, v in response.getheaders() if k.lower() not in HOP_BY_HOP]
        if self.command == "HEAD":
            headers.append(("Content-Length", response.getheader("Content-Length") or "0"))
        answer = response.read()
        connection.close()
        return response.status, headers, answer

    def answer(self, status, headers, body, truncate, stall_seconds):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return  # it is whole without a body
        self.wfile.write(body if truncate is None else body[:truncate])
        if truncate is not None:
            self.wfile.flush()
            time.sleep(stall_seconds)
            self.close_connection = True
