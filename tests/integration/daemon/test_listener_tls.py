"""A listener with a certificate, and one that requires client certificates."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from oracle.daemon.config.listener_section import StatementsSection, WebSection
from oracle.daemon.web.http_server import serve_app
from oracle.daemon.web.statements_app import create_statements_app
from oracle.errors import InputError
from oracle.quorum.peer_client import Peer
from oracle.quorum.wire_format import Board
from oracle.rpc.transport import HttpAccess
from tests.integration.daemon.test_slow_clients import (
    PATIENCE_SECONDS,
    open_socket,
    read_refused_connections,
    read_until_closed,
)
from tests.integration.http.test_peers import signed_report
from tests.integration.signers.test_mutual_tls import Pair, made

PATH = "/v1/report/7"


@pytest.fixture
def authority(tmp_path: Path) -> Pair:
    return made(tmp_path, "authority")


@pytest.fixture
def tls(tmp_path: Path, authority: Pair) -> dict[str, Any]:
    own = made(tmp_path, "host", authority)
    return {
        "certificate": own.certificate,
        "certificate_key": own.key,
        "client_ca_file": authority.certificate,
    }


def board() -> Board:
    new_board = Board()
    new_board.publish(signed_report())
    return new_board


@pytest.fixture
def url(tls: dict[str, Any]) -> Iterator[str]:
    section = StatementsSection(
        max_connections=16, max_connections_per_address=4, header_timeout_seconds=60.0, **tls
    )
    with serve_app(create_statements_app(board()), section, 0) as url:
        yield url


def access(tmp_path: Path, authority: Pair) -> HttpAccess:
    own = made(tmp_path, "peer", authority)
    return HttpAccess(
        certificate=(str(own.certificate), str(own.key)), ca_file=str(authority.certificate)
    )


def test_peer_with_a_valid_certificate_is_served(url: str, tmp_path: Path, authority: Pair):
    peer = Peer(url, PATIENCE_SECONDS, access(tmp_path, authority))
    assert peer.fetch_statements(7) == [signed_report()]
    peer.close()


def test_client_without_certificate_is_rejected(url: str, authority: Pair):
    with pytest.raises(requests.ConnectionError):
        requests.get(url + PATH, verify=str(authority.certificate), timeout=PATIENCE_SECONDS)


def test_client_with_untrusted_certificate_is_rejected(url: str, tmp_path: Path, authority: Pair):
    foreign_pair = made(tmp_path, "other")
    pair = str(foreign_pair.certificate), str(foreign_pair.key)
    with pytest.raises(requests.ConnectionError):
        requests.get(
            url + PATH, cert=pair, verify=str(authority.certificate), timeout=PATIENCE_SECONDS
        )


def test_unfinished_handshakes_do_not_block_peers(url: str, tmp_path: Path, authority: Pair):
    # The beginning of a ClientHello; no port of ours is https to `connected`.
    plain = url.replace("https", "http")
    crowd = [open_socket(plain, b"\x16\x03\x01\x02\x00") for _ in range(40)]
    peer = Peer(url, PATIENCE_SECONDS, access(tmp_path, authority))
    try:
        assert peer.fetch_statements(7) == [signed_report()]
        assert [read_until_closed(connection) for connection in crowd[:30]] == 30 * [b""]
    finally:
        peer.close()
        for connection in crowd:
            connection.close()


def test_slow_tls_handshake_is_aborted(tls: dict[str, Any]):
    section = WebSection(header_timeout_seconds=0.3, **tls)
    before = read_refused_connections("slow")
    with (
        serve_app(create_statements_app(board()), section, 0) as url,
        open_socket(url.replace("https", "http"), b"\x16") as slow,
    ):
        assert read_until_closed(slow) == b""
        assert read_refused_connections("slow") <= before + 1


@pytest.mark.parametrize("fault", ["others may read it", "it is missing", "it is not a key"])
def test_invalid_certificate_key_prevents_startup(tls: dict[str, Any], fault: str):
    key = tls["certificate_key"]
    match fault:
        case "others may read it":
            key.chmod(0o644)
        case "it is missing":
            key.unlink()
        case _:
            key.write_text("no key")
    with (
        pytest.raises(InputError, match=r"chmod 600|\[web\] certificate: cannot be used"),
        serve_app(create_statements_app(board()), WebSection(**tls), 0),
    ):
        pass
