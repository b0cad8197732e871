"""The network of 2024 in one demo: both rounds, groups of three, fees by score, system tasks."""

import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from rich.console import Console

from devnet.anvil import LocalChain
from devnet.demo.demo_system import LEGACY_SYSTEM
from devnet.demo.screen import Screen
from devnet.demo.show import START_TIME, DemoOptions, start_demo
from oracle.daemon.config.loader import read_config
from tests.integration.demo.round_reference import Rounds, rounds_of

pytestmark = [pytest.mark.evm, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]

# Scores that doubling a single submission cannot give.
TWO_ROUNDS = {5, 7, 12, 15}
WAVES = 8


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[Rounds, dict[tuple[str, str], int], list[str]]]:
    """Run the demo; return the expected scores from the logs, the stored scores,
    and its faults.
    """
    options = DemoOptions(LEGACY_SYSTEM, waves=WAVES, may_end_early=True, block_seconds=0.05)
    with (
        Screen(Console(file=io.StringIO()), start=START_TIME) as screen,
        start_demo(screen, options) as (play, daemon, at),
    ):
        play.run_until_kickout(daemon, options)
        summary = play.finish_and_verify_demo(daemon, options)
        figures = rounds_of(network_logs(at["chain"], summary.addresses["network"]))
        database = read_config(daemon.configuration).database.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as rows:
            stored = {
                ("0x" + node.hex(), "0x" + task.hex()): score
                for node, task, score in rows.execute("SELECT node, task, score FROM score")
            }
        daemon.stop()
        yield figures, stored, summary.faults


def network_logs(url: str, network: str) -> list[dict[str, Any]]:
    with closing(LocalChain(url)) as chain:
        log_filter = {"address": network, "fromBlock": "0x0", "toBlock": "latest"}
        logs: list[dict[str, Any]] = chain.make_request("eth_getLogs", log_filter)
    return logs


def test_scores_of_both_rounds_equal_an_independent_computation(played):
    figures, stored, faults = played
    assert faults == []
    assert stored == figures.scores
    assert len(stored) >= 3 * 4 * (WAVES - 2)
    assert TWO_ROUNDS & set(stored.values())


def test_fee_shares_match_the_scores_of_both_rounds(played):
    figures, _, _ = played
    assert len(figures.shares) >= 3 * 4 * WAVES // 2
    assert figures.shares == figures.expected_shares


def test_nodes_without_a_task_in_the_window_get_system_tasks(played):
    assert played[0].probes
