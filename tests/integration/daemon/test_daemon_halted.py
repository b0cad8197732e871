"""The daemon with the devnet's endpoints: websocket notices, halts, and automatic recovery."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from devnet.fakechain.websocket import serve_websocket
from oracle.cli.main import run
from tests.integration.reporters.waiting import wait_until
from tests.support.cli.daemon import run_daemon
from tests.support.cli.local_network import write_config
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import CHAIN_ID, CONTRACTS, FINALITY

pytestmark = pytest.mark.slow


@pytest.fixture
def fake_chain() -> Iterator[FakeChain]:
    with ExitStack() as until_the_end:
        chain = FakeChain(until_the_end)
        chain.serve()
        chain.serve()
        chain.live(30)
        yield chain


@pytest.fixture
def settings(fake_chain: FakeChain, tmp_path: Path):
    return {
        "database": {"url": f"sqlite:///{tmp_path / 'oracle.sqlite'}"},
        "chain": {
            "id": CHAIN_ID,
            "endpoints": fake_chain.urls,
            "finality_depth": FINALITY,
            "poll_seconds": 0.2,
        },
        "network": {"contracts": dict(CONTRACTS)},
        "web": {"port": 0},
        "log": {"format": "json"},
    }


def test_new_head_from_websocket_is_indexed_immediately(
    fake_chain: FakeChain, settings, tmp_path: Path
):
    with serve_websocket(fake_chain.provider) as websocket:
        settings["chain"] |= {"websocket": websocket.url, "poll_seconds": 300.0}
        with run_daemon(write_config(settings, tmp_path / "config.toml")) as running:
            running.wait_for_block(fake_chain.head.number)
            # A head before the subscription reaches no subscriber.
            wait_until(lambda: websocket.subscription_count == 1, "a subscription")
            for _ in range(3):
                fake_chain.live(1)
                running.wait_for_block(fake_chain.head.number)

            assert "oracle_new_heads_total 3.0" in running.get("/metrics").text


def test_changed_final_block_halts_sending_but_daemon_keeps_running(
    fake_chain: FakeChain, settings, tmp_path: Path
):
    own_head = fake_chain.head
    with run_daemon(write_config(settings, tmp_path / "config.toml")) as running:
        running.wait_for_block(own_head.number)
        running.wait_until_ready()
        fake_chain.show(
            fake_chain.tree.mine_empty_blocks(
                FINALITY + 6, parent_block=fake_chain.back(FINALITY + 3)
            )
        )

        log_line = running.wait_for("step_completed", did="halted")
        answer = running.wait_until_not_ready()
        assert answer["halt"].startswith("halt finality_violation: block 22 was final here")
        assert answer["reasons"][0] == f"HALTED: {answer['halt']}"
        assert log_line["halt"] == "finality_violation"
        assert "oracle_finality_violation 1.0" in running.get("/metrics").text
        (halt,) = running.get("/v1/operations").json()["halts"]
        assert halt["block"] == 22

        longer = fake_chain.tree.mine_empty_blocks(FINALITY + 8, parent_block=own_head)
        fake_chain.show(longer)
        running.wait_for("step_completed", did="resumed")
        running.wait_for_block(longer.number)
        running.wait_until_ready()
        endpoints = running.get("/v1/operations").json()["endpoints"]
        assert [endpoint["endpoint"] for endpoint in endpoints] == fake_chain.urls
        assert all("quarantined" not in endpoint["state"] for endpoint in endpoints)


def test_halt_found_at_startup_is_reported_and_fails_run_once(
    fake_chain: FakeChain, settings, tmp_path: Path, capsys
):
    config = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(config)]) == 0
    fake_chain.show(
        fake_chain.tree.mine_empty_blocks(FINALITY + 6, parent_block=fake_chain.back(FINALITY + 3))
    )
    capsys.readouterr()

    for _ in range(2):
        assert run(["run", "--once", "--config", str(config)]) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith(
            "qos-oracle: the index has not caught up: halt finality_violation: block 22 was"
        )

    with run_daemon(config) as running:
        log_line = running.wait_for("daemon_halted")
        assert log_line["reason"].startswith("halt finality_violation: block 22 was final here")
        assert running.get("/readyz").json()["folded"] == 30


def test_daemon_is_ready_after_a_restart_on_an_idle_chain(
    fake_chain: FakeChain, settings, tmp_path: Path
):
    config = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(config)]) == 0

    with run_daemon(config) as running:
        running.wait_until_ready()
        assert running.get("/readyz").json()["folded"] == fake_chain.head.number
