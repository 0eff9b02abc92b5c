"""An HTTP server on loopback with range requests, a request log, added latency and faults on demand."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@lru_cache(maxsize=64)
def _etag(data: bytes) -> str:
    """Returns a cached digest. Without the cache, computing the digest of a large object for each request would take
    most of a test's time."""
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


@dataclass
class Logged:
    """One request as the server saw it; ``sent`` counts the bytes of the body."""

    method: str
    path: str
    range: str | None
    status: int = 0
    sent: int = 0


@dataclass
class RangeServer:
    """Serves ``objects`` (path without the leading slash → bytes). Use as a context manager.

    ``latency``: seconds before each answer. ``faults``: taken one by one, one for each GET: "" (none), a status such as
    "503", "short" (the body ends early and the connection closes), "reset" (the connection is reset), "whole" (the
    range is ignored), "shifted" (another range than the requested one), "stall" (no answer before the server closes).
    Requests at the same time take the faults in any order. ``stalled`` names Range headers that are never answered.
    """

    objects: dict[str, bytes]
    latency: float = 0.0
    etags: bool = True
    faults: deque[str] = field(default_factory=deque)
    stalled: set[str] = field(default_factory=set)
    log: list[Logged] = field(default_factory=list)
    most_at_once: int = 0

    def __enter__(self) -> RangeServer:
        self._lock = threading.Lock()
        self._at_once = 0
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def gets(self) -> list[Logged]:
        return [one for one in self.log if one.method == "GET"]

    def busy(self, step: int) -> None:
        with self._lock:
            self._at_once += step
            self.most_at_once = max(self.most_at_once, self._at_once)

    def fault(self) -> str:
        with self._lock:
            return self.faults.popleft() if self.faults else ""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # with the default of 5, parallel clients may wait a second to send SYN again
    daemon_threads = False
    owner: RangeServer

    def __init__(self, *args: Any) -> None:
        self._connections: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of connections that clients close, which is part of the tests."""

    def hang_up(self) -> None:
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        owner = self.server.owner
        entry = Logged(self.command, self.path, self.headers.get("Range"))
        owner.log.append(entry)
        owner.busy(1)
        try:
            if owner.latency:
                time.sleep(owner.latency)
            self._serve(owner, entry, owner.fault() if self.command == "GET" else "")
        finally:
            owner.busy(-1)

    def _serve(self, owner: RangeServer, entry: Logged, fault: str) -> None:
        data = owner.objects.get(self.path.lstrip("/").partition("?")[0])
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.close_connection = True
            self.connection.close()
            return
        if fault == "stall" or entry.range in owner.stalled:
            owner.closing.wait(30)
            self.close_connection = True
            return
        if data is None or fault.isdigit():
            self._head(entry, 404 if data is None else int(fault), 0, {})
            return
        headers = {"Last-Modified": formatdate(0, usegmt=True)}
        if owner.etags:
            headers["ETag"] = _etag(data)
        span = None if fault == "whole" else _span(entry.range, len(data))
        if span is None:
            status, body = 200, data
        elif span[0] >= span[1]:
            self._head(entry, 416, 0, {**headers, "Content-Range": f"bytes */{len(data)}"})
            return
        else:
            start, stop = span
            if fault == "shifted":
                start, stop = start + 1, stop + 1
            status, body = 206, data[start:stop]
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        self._head(entry, status, len(body), headers)
        if self.command == "GET":
            self._send(entry, body, fault)

    def _head(self, entry: Logged, status: int, length: int, headers: dict[str, str]) -> None:
        entry.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, entry: Logged, body: bytes, fault: str) -> None:
        if fault == "short":
            body = body[: len(body) // 2]
            self.close_connection = True
        entry.sent = len(body)
        self.wfile.write(body)


def _span(header: str | None, size: int) -> tuple[int, int] | None:
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", header or "")
    if match is None:
        return None
    first, last = match.groups()
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size
