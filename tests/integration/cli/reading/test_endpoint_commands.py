"""`endpoint probe`: a table for people, JSON for programs, and exit codes."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import BlockTree
from oracle.cli.main import run
from tests.support.cli.local_network import write_config

Endpoints = tuple[Provider, Provider, list[str]]


@pytest.fixture
def endpoints() -> Iterator[Endpoints]:
    """Yield two endpoints of one chain of forty blocks."""
    tree = BlockTree(31337)
    tree.mine_empty_blocks(40)
    first = Provider(tree)
    second = Provider(tree)
    with ExitStack() as until_the_end:
        yield (
            first,
            second,
            [
                f"{until_the_end.enter_context(serve_endpoint(provider)).url}/a-key-of-ours"
                for provider in (first, second)
            ],
        )


@pytest.fixture
def config(offline_settings, endpoints: Endpoints, tmp_path: Path) -> Path:
    offline_settings["chain"] = {"id": 31337, "endpoints": endpoints[2]}
    return write_config(offline_settings, tmp_path / "config.toml")


def test_healthy_endpoints_are_listed_without_writing_anything(
    capsys: pytest.CaptureFixture[str], config: Path, tmp_path: Path
):
    assert run(["endpoint", "probe", "--config", str(config)]) == 0

    output = capsys.readouterr().out
    assert output.count("FakeChain/1.0") == 2
    assert output.count(": fit\n") == 2
    assert "a-key-of-ours" not in output
    assert not any(tmp_path.glob("*.sqlite*"))


def test_probe_exits_with_an_error_for_an_unsuitable_endpoint(
    capsys: pytest.CaptureFixture[str], config: Path, endpoints: Endpoints
):
    _, second, _ = endpoints
    second.head = second._view.find_block(30) or second.head
    second.pruned_below = 12

    assert run(["endpoint", "probe", "--config", str(config), "--json"]) == 1

    fit, unfit = json.loads(capsys.readouterr().out)
    assert (fit["head"], fit["lag_blocks"], fit["fault"]) == (40, 0, None)
    assert (unfit["head"], unfit["lag_blocks"], unfit["oldest_logs"]) == (30, 10, 12)
    assert unfit["fault"] == (
        "has no logs of blocks 0 to 11; add another endpoint that keeps its history"
    )


def test_probe_rejects_an_endpoint_of_another_chain(
    capsys: pytest.CaptureFixture[str], config: Path, endpoints: Endpoints
):
    endpoints[0].chain_id = 5

    assert run(["endpoint", "probe", "--config", str(config), "--endpoint", "1"]) == 1
    assert "is on chain 5, but [chain] id is 31337" in capsys.readouterr().out
    assert run(["endpoint", "probe", "--config", str(config), "--endpoint", "2"]) == 0


def test_probe_rejects_an_endpoint_with_a_different_checkpoint_hash(
    capsys: pytest.CaptureFixture[str], offline_settings, endpoints: Endpoints, tmp_path: Path
):
    anchor = {"checkpoint_block": 3, "checkpoint_hash": "0x" + "ab" * 32}
    offline_settings["chain"] = {"id": 31337, "endpoints": endpoints[2], **anchor}
    path = write_config(offline_settings, tmp_path / "config.toml")

    assert run(["endpoint", "probe", "--config", str(path), "--endpoint", "1"]) == 1
    assert "DIFFERS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("chain", "complaint"),
    [
        ({"checkpoint_block": 3}, "checkpoint_block and checkpoint_hash: set both or neither"),
        (
            {"checkpoint_block": 3, "checkpoint_hash": "0x12"},
            "not a hash; expected 0x and 64 hex digits",
        ),
        ({"websocket": "http://localhost"}, "expected a ws:// or wss:// URL"),
        ({"finality_seconds": -1}, "chain.finality_seconds"),
        ({"providers": {'"elsewhere.example"': "one"}}, "is not the host of any endpoint"),
    ],
)
def test_invalid_settings_are_rejected(
    capsys: pytest.CaptureFixture[str], offline_settings, tmp_path: Path, chain, complaint: str
):
    offline_settings["chain"] |= chain
    path = write_config(offline_settings, tmp_path / "config.toml")

    assert run(["endpoint", "probe", "--config", str(path)]) == 2
    assert complaint in capsys.readouterr().err


def test_out_of_range_endpoint_number_is_rejected(
    capsys: pytest.CaptureFixture[str], config: Path
):
    assert run(["endpoint", "probe", "--config", str(config), "--endpoint", "3"]) == 2
    assert "--endpoint 3: chain.endpoints has only 2" in capsys.readouterr().err
