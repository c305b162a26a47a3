"""A server on 127.0.0.1 whose pages no client should trust; which one it sends, the first part of the path says."""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_FORGED = {"data": [{"id": "a\nspecplan: done \x1b[31m", "max_model_len": "x"}]}
_WHOLE = {
    "html": (200, "text/html", b"<html>log in</html>"),
    "bomb": (200, "application/json", gzip.compress(b"\0" * 2**27)),
    "redirect": (302, "text/plain", b""),
    "status-500": (500, "text/plain", b"\x1b[31mboom\nUse LR"),
    "status-401": (401, "application/json", b'{"error": {"message": "k\\u001b[31mey"}}'),
    "nothing": (204, "text/plain", b""),
    "deep": (200, "application/json", b"[" * 100_000),
    "kinds": (200, "application/json", b'{"data": [{"id": 5}, {"id": null}, 7], "object": 3}'),
    "forged": (200, "application/json", json.dumps(_FORGED).encode()),
    "many": (200, "application/json", json.dumps({"data": [{"id": f"m{i}"} for i in range(50_000)]}).encode()),
    "bytes": (200, "text/plain", b"\xff\xfe\xfa"),
}
PAGES = (*_WHOLE, "endless", "dripping", "silent")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.do_GET()

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        with suppress(OSError):
            if kind in _WHOLE:
                self._whole(*_WHOLE[kind], gzipped=kind == "bomb")
            elif kind == "endless":
                self._begin(("transfer-encoding", "chunked"))
                while True:
                    self.wfile.write(b"10000\r\n" + b"a" * 65_536 + b"\r\n")
            elif kind == "dripping":
                self._begin(("content-length", "100000"))
                for _ in range(600):
                    self.wfile.write(b"a")
                    time.sleep(0.1)
            else:
                time.sleep(60.0)

    def _begin(self, *headers: tuple[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def _whole(self, status: int, kind: str, body: bytes, *, gzipped: bool) -> None:
        headers = [("content-type", kind), ("content-length", str(len(body)))]
        headers += [("content-encoding", "gzip")] if gzipped else []
        headers += [("location", "file:///etc/passwd")] if status == 302 else []
        self._begin(*headers, status=status)
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave are what these pages are for."""


@contextmanager
def hostile_pages() -> Iterator[str]:
    """Serve; yield the address, below which the pages are."""
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
