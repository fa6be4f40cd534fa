"""The live page during a run: a small HTTP server for one directory of records.

    /                      the page, which polls every two seconds for
    /data.json             what the page shows; 304 while the directory has not changed
    /pictures/<id>.json    the pictures of one trial

There are no other addresses, and no address is ever turned into a path: a trial's pictures are found by looking its id
up among the records. Requests must name the host they were sent to (or a loopback name), so that a page elsewhere can't
reach the server under a name of its own (DNS rebinding). Nothing can be written.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..contract.metric import MetricSpec
from ..contract.reference_table import ReferenceTable
from ..trials.store import Store
from .packing import pack
from .page import render
from .page_data import page_data, read_board, trial_id
from .panels import panels

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHARE = 0.1  # of one core: watching a run must not slow down what it measures


class LiveBoard:
    """A directory as the page sees it; read again when it has changed, and then for a `SHARE` of the time at most."""

    def __init__(
        self, directory: Path, references: Sequence[ReferenceTable] = (), metrics: Sequence[MetricSpec] = ()
    ) -> None:
        self.store = Store(directory)
        self.references, self.metrics = references, metrics
        self.name = directory.resolve().name
        self._lock = threading.Lock()
        self._version = ""
        self._rest_until = 0.0
        self._body = b""
        self._keys: dict[str, str] = {}

    def data(self) -> tuple[str, bytes]:
        """The page's data and their version (an HTTP entity tag)."""
        with self._lock:
            start = time.monotonic()
            version = self._fingerprint()
            if version != self._version and start >= self._rest_until:
                board = read_board(self.store, self.name)
                data = pack(page_data([board], self.references, self.metrics))
                self._body = json.dumps(data, allow_nan=False).encode()
                self._keys = {trial_id(0, record.key): record.key for record in board.records}
                self._version = version
                now = time.monotonic()
                self._rest_until = now + (now - start) * (1 / SHARE - 1)
            return self._version, self._body

    def pictures(self, trial: str) -> list[dict[str, Any]] | None:
        """The pictures of a trial; None if the board has no such trial."""
        self.data()
        key = self._keys.get(trial)
        return None if key is None else panels(self.store.samples(key))

    def _fingerprint(self) -> str:
        return '"' + sha256("\n".join(self._files()).encode()).hexdigest()[:32] + '"'

    def _files(self) -> Iterator[str]:
        """Name, size and time of every file the page is made from."""
        records = self.store.records_dir
        for path in (self.store.path / "plan.json", *sorted(records.glob("*.json")), *sorted(records.glob("packed.*"))):
            try:
                status = path.stat()
            except FileNotFoundError:  # replaced or removed meanwhile
                continue
            yield f"{path.name} {status.st_size} {status.st_mtime_ns}"


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of the three addresses above; everything else is 404, 405 or 421."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "pdebench-hss"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        if not self._is_addressed_to_us():
            return self._text(HTTPStatus.MISDIRECTED_REQUEST, "this server answers only under its own name")
        if self.path in ("/", "/index.html"):
            return self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        if self.path == "/data.json":
            return self._data()
        if self.path.startswith("/pictures/") and self.path.endswith(".json"):
            return self._pictures(self.path.removeprefix("/pictures/").removesuffix(".json"))
        return self._text(HTTPStatus.NOT_FOUND, "no such page")

    do_HEAD = do_GET

    def _data(self) -> None:
        version, body = self.server.board.data()
        if self.headers.get("If-None-Match") == version:
            return self._send(HTTPStatus.NOT_MODIFIED, "", b"", {"ETag": version})
        return self._send(HTTPStatus.OK, "application/json", body, {"ETag": version})

    def _pictures(self, trial: str) -> None:
        found = self.server.board.pictures(trial)
        if found is None:
            return self._text(HTTPStatus.NOT_FOUND, "no such trial")
        return self._send(HTTPStatus.OK, "application/json", json.dumps(found).encode())

    def _is_addressed_to_us(self) -> bool:
        host = self.headers.get("Host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name.strip("[]") in (*LOOPBACK, self.server.host)

    def _text(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", text.encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
        if kind:
            headers |= {"Content-Type": kind, "Content-Length": str(len(body)), "X-Frame-Options": "DENY"}
        for name, value in {**headers, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Polls every two seconds are not logged."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self,
        directory: Path,
        host: str,
        port: int,
        references: Sequence[ReferenceTable] = (),
        metrics: Sequence[MetricSpec] = (),
    ) -> None:
        self.board = LiveBoard(directory, references, metrics)
        self.host = host
        self.page = render(None, None, f"pdebench-hss: {self.board.name}").encode()
        super().__init__((host, port), Handler)

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.server_address[1]}/"
