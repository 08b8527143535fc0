"""An object store that is far away: each answer begins after a pause, however many are asked for at once.

It serves the files of a folder as a bucket, in the part of the S3 protocol that readers use (GET, HEAD, ranges, listings),
from one thread that only waits: unlike a server that works for each answer it is not what limits.

    with served(folder, latency=0.1) as far:
        zkit("inspect", "s3://far/store.zarr", **far.environment)
        far.requests              # [(method, path, status)] of the answers so far
        far.depth                 # rounds of latency in which something was asked, one after the other

`far.fault` is asked for each request and may break its answer:
  {"status": 503, "headers": {...}}      answer so              {"truncate": 100}         100 bytes of the body, then close
  {"stall": 100, "seconds": 60}          100 bytes, then nothing for a minute, then close
  {"flip": 40}                           flip one bit of byte 40
"""

import asyncio
import contextlib
import hashlib
import pathlib
import threading
import time
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

NAME = "far"
KEYS_IN_A_PAGE = 1000


class Far:
    def __init__(self, folder, latency):
        self.folder, self.latency = pathlib.Path(folder), latency
        self.requests, self.in_flight, self.most_in_flight = [], 0, 0
        self.fault = lambda method, path: None
        # what becomes of entity tags, which are MD5 sums, and what happens after an answer
        self.tag = lambda tag: tag
        self.changes = lambda path, headers: None
        self.bytes_per_second = None
        self._round_ends, self.depth = 0.0, 0
        self._bodies = {}

    @property
    def environment(self):
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "t",
            "AWS_SECRET_ACCESS_KEY": "t",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def reset(self):
        self.requests, self.most_in_flight, self.depth, self._round_ends = [], 0, 0, 0.0
        self.fault = lambda method, path: None

    # ---- connections

    async def connection(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                arrived = time.monotonic()
                # what is asked before anything that was asked earlier is answered is of the same round
                if arrived >= self._round_ends:
                    self.depth += 1
                    self._round_ends = arrived + self.latency
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    await asyncio.sleep(self.latency)
                    if not await self.answer(head.decode("latin-1"), writer):
                        return
                finally:
                    self.in_flight -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, head, writer):
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        fault = self.fault(method, target)
        if fault and "drop" in fault:
            self.requests.append((method, target, 0))
            return False
        if fault and "status" in fault:
            status, extra, body = fault["status"], fault.get("headers", {}), b""
        else:
            status, extra, body = self.found(target, headers)
        self.requests.append((method, target, status))
        text = f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n"
        text += "".join(f"{name}: {value}\r\n" for name, value in extra.items())
        writer.write(text.encode() + b"\r\n")
        if method != "HEAD":
            if fault and "truncate" in fault:
                writer.write(body[: fault["truncate"]])
                await writer.drain()
                return False
            if fault and "stall" in fault:
                writer.write(body[: fault["stall"]])
                await writer.drain()
                await asyncio.sleep(fault["seconds"])
                return False
            if fault and "flip" in fault and body:
                at = fault["flip"] % len(body)
                body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
            await self.send(body, writer)
        await writer.drain()
        self.changes(target, headers)
        return True

    async def send(self, body, writer):
        if not self.bytes_per_second:
            return writer.write(body)
        step = max(1, self.bytes_per_second // 4)
        for start in range(0, len(body), step):
            writer.write(body[start : start + step])
            await writer.drain()
            await asyncio.sleep(step / self.bytes_per_second)

    # ---- what is there

    def found(self, target, headers):
        url = urlsplit(target)
        key = unquote(url.path).removeprefix(f"/{NAME}").lstrip("/")
        if "list-type" in (query := parse_qs(url.query)):
            return 200, {"Content-Type": "application/xml"}, self.listing({k: v[0] for k, v in query.items()})
        file = self.folder / key
        if not key or not file.is_file():
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        body, tag = self.body(file)
        tag = self.tag(tag)
        extra = {"ETag": f'"{tag}"', "Last-Modified": "Wed, 01 Jan 2020 00:00:00 GMT"}
        if headers.get("if-match", extra["ETag"]) != extra["ETag"]:
            return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
        if not (asked := headers.get("range")):
            return 200, extra, body
        start, _, end = asked.removeprefix("bytes=").partition("-")
        start, end = (
            (int(start), min(int(end or len(body)), len(body) - 1))
            if start
            else (
                max(len(body) - int(end), 0),
                len(body) - 1,
            )
        )
        return 206, {**extra, "Content-Range": f"bytes {start}-{end}/{len(body)}"}, body[start : end + 1]

    def body(self, file):
        stat = file.stat()
        known = self._bodies.get(file)
        if known is None or known[0] != (stat.st_mtime_ns, stat.st_size):
            body = file.read_bytes()
            known = self._bodies[file] = ((stat.st_mtime_ns, stat.st_size), body, hashlib.md5(body).hexdigest())
        return known[1:]

    def listing(self, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        after = query.get("continuation-token") or query.get("start-after") or ""
        folder = self.folder / prefix.rpartition("/")[0]
        if delimiter:
            names = sorted(p.name + ("/" if p.is_dir() else "") for p in folder.iterdir()) if folder.is_dir() else []
            base = prefix.rpartition("/")[0]
            keys = [f"{base}/{name}".lstrip("/") for name in names]
        else:
            files = folder.rglob("*") if folder.is_dir() else []
            keys = sorted(p.relative_to(self.folder).as_posix() for p in files if p.is_file())
        keys = [key for key in keys if key.startswith(prefix) and key > after]
        page, more = keys[:KEYS_IN_A_PAGE], len(keys) > KEYS_IN_A_PAGE
        entries = "".join(
            f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>"
            if key.endswith("/")
            else f"<Contents><Key>{escape(key)}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"{self.body(self.folder / key)[1]}"</ETag><Size>{(self.folder / key).stat().st_size}</Size></Contents>'
            for key in page
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        return (
            f"<?xml version='1.0'?><ListBucketResult><Name>{NAME}</Name><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{token}{entries}</ListBucketResult>"
        ).encode()


@contextlib.contextmanager
def served(folder, latency=0.1):
    """The server of a folder, on a thread of its own for as long as the block runs."""
    far = Far(folder, latency)
    loop = asyncio.new_event_loop()

    async def run():
        server = await asyncio.start_server(far.connection, "127.0.0.1", 0, backlog=1024)
        far.port = server.sockets[0].getsockname()[1]

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(run(), loop).result(10)

    async def leave():
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        yield far
    finally:
        asyncio.run_coroutine_threadsafe(leave(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def ideal_seconds(far, keys, connections=64):
    """How long a client takes that only fetches these objects, over so many connections."""

    async def worker(queue):
        reader, writer = await asyncio.open_connection("127.0.0.1", far.port)
        while queue:
            path = queue.pop()
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        writer.close()

    async def fetch():
        queue = list(keys)
        await asyncio.gather(*(worker(queue) for _ in range(connections)))

    begun = time.monotonic()
    asyncio.run(fetch())
    return time.monotonic() - begun
