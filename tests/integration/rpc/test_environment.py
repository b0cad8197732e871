"""Environment variables of an address are respected: a proxy for it, a password for it."""

import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from oracle.rpc.transport import BoundedHttp

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


class Door(HTTPServer):
    """Answers every request, and records the requested path and password."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []
        self.passwords: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Door

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.server.passwords.append(self.headers["Authorization"])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    @override
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Door]:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with Door() as door:
        thread = threading.Thread(target=door.serve_forever, args=(0.01,))
        thread.start()
        yield door
        door.shutdown()
        thread.join()


def send_request(url: str) -> int:
    http = BoundedHttp(url, name="an endpoint", max_bytes=100)
    try:
        return http.post(b"{}", 5.0, 5.0).status
    finally:
        http.close()


def test_proxy_set_in_environment_is_used(door: Door, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", door.url)
    assert send_request("http://endpoint.example/rpc") == 200
    assert door.paths == ["http://endpoint.example/rpc"]


def test_address_listed_in_no_proxy_is_contacted_directly(
    door: Door, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", "http://proxy.example:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert send_request(f"{door.url}/rpc") == 200
    assert door.paths == ["/rpc"]


def test_password_from_netrc_is_sent(door: Door, tmp_path: Path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n", "utf-8")
    (tmp_path / "netrc").chmod(0o600)
    assert send_request(door.url) == 200
    assert door.passwords == ["Basic " + b64encode(b"me:secret").decode()]


def test_no_password_is_sent_without_netrc(door: Door):
    assert send_request(door.url) == 200
    assert door.passwords == [None]
