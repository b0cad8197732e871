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


class RecordingServer(HTTPServer):
    """Answers every request, and records the requested path and password."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []
        self.passwords: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: RecordingServer

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
def recording_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RecordingServer]:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with RecordingServer() as recording_server:
        thread = threading.Thread(target=recording_server.serve_forever, args=(0.01,))
        thread.start()
        yield recording_server
        recording_server.shutdown()
        thread.join()


def send_request(url: str) -> int:
    http = BoundedHttp(url, name="an endpoint", max_bytes=100)
    try:
        return http.post(b"{}", 5.0, 5.0).status
    finally:
        http.close()


def test_proxy_set_in_environment_is_used(
    recording_server: RecordingServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", recording_server.url)
    assert send_request("http://endpoint.example/rpc") == 200
    assert recording_server.paths == ["http://endpoint.example/rpc"]


def test_address_listed_in_no_proxy_is_contacted_directly(
    recording_server: RecordingServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", "http://proxy.example:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert send_request(f"{recording_server.url}/rpc") == 200
    assert recording_server.paths == ["/rpc"]


def test_password_from_netrc_is_sent(recording_server: RecordingServer, tmp_path: Path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n", "utf-8")
    (tmp_path / "netrc").chmod(0o600)
    assert send_request(recording_server.url) == 200
    assert recording_server.passwords == ["Basic " + b64encode(b"me:secret").decode()]


def test_no_password_is_sent_without_netrc(recording_server: RecordingServer):
    assert send_request(recording_server.url) == 200
    assert recording_server.passwords == [None]
