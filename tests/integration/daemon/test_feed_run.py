"""`run` with a feed: its rows are read, folded and marked as unproven,
and nothing is published.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.domain.health import Severity
from tests.integration.feeds.test_silent_members import closes_without
from tests.support.cli.local_network import Settings, write_config
from tests.support.cli.refusal import run_refused_command
from tests.support.feeds.relay import Relay, make_relay_node, serve_relay
from tests.support.ingest.daemons import build_daemon_settings
from tests.support.ingest.fake_chain import FakeChain

# Each reads streams over HTTP, page by page.
pytestmark = pytest.mark.slow


class Site:
    """A chain, a relay with a settable clock, and a daemon's configuration for both."""

    def __init__(self, until_the_end: ExitStack, folder: Path) -> None:
        self.chain = FakeChain(until_the_end)
        self.chain.serve()
        self.chain.serve()
        self.chain.mine_empty(3)
        self.relay = Relay(now=int(time.clock_gettime(time.CLOCK_REALTIME)))
        self.url = until_the_end.enter_context(serve_relay(self.relay))
        self.folder = folder

    def settings(self, **feed: object) -> Settings:
        settings = build_daemon_settings(self.chain, self.folder)
        settings["rules"] = {"set": "relay"}
        settings["feed"] = {"url": self.url, "drift_seconds": 3600, **feed}
        return settings

    def config(self, **feed: object) -> Path:
        return write_config(self.settings(**feed), self.folder / "config.toml")

    def later(self, seconds: int) -> None:
        """Advance the relay's clock, and mine a block of half of that time."""
        block = self.relay.now + seconds // 2
        self.relay.now += seconds
        self.chain.mine_empty(1, seconds=block - self.chain.head.time)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as until_the_end:
        yield Site(until_the_end, tmp_path)


def test_feed_events_are_folded_and_reported_as_unproven(site: Site, capsys):
    for number in (1, 2, 3):
        site.relay.joins(number)
    site.relay.group({11: 1, 12: 2, 13: 3})
    config = str(site.config())
    for _ in range(3):
        assert run(["run", "--once", "--config", config]) == 0
        site.later(100)
    capsys.readouterr()

    assert run(["nodes", "--json", "--config", config]) == 0
    row_by_node = {row["node"]: row for row in json.loads(capsys.readouterr().out)["nodes"]}
    assert {row_by_node[make_relay_node(number)]["scores_in_pool"] for number in (1, 2, 3)} == {1}
    assert {row["proof"] for row in row_by_node.values()} == {"none"}

    assert run(["explain", make_relay_node(1), "--config", config]) == 0
    assert "UNPROVEN: based on a feed without proofs" in capsys.readouterr().out

    assert run(["explain", make_relay_node(1), "--full", "--config", config]) == 0
    assert "row 10 of the feed, which has no proof" in capsys.readouterr().out

    # There is no contract at the address of the settings.
    assert run(["status", "--config", config]) == Severity.DOWN
    assert "feed proof" in capsys.readouterr().out

    assert run(["resync", "rebuild", "--dry-run", "--config", config]) == 0
    assert run(["export", "--config", config]) == 0
    assert '"ranked":true' in capsys.readouterr().out


def test_capped_relay_pages_are_read_completely_in_a_single_run(site: Site, capsys):
    """There are more pages than one poll reads: the daemon continues without a pause."""
    site.relay.page_cap = 1
    for number in range(1, 61):
        site.relay.joins(number)
    config = str(site.config(page_rows=1000))
    for _ in range(2):
        assert run(["run", "--once", "--config", config]) == 0
        site.later(100)
    assert run(["run", "--once", "--config", config]) == 0
    capsys.readouterr()

    assert run(["nodes", "--json", "--config", config]) == 0
    assert len(json.loads(capsys.readouterr().out)["nodes"]) == 60


def test_explanation_contains_the_derived_score_of_a_timed_out_member(site: Site, capsys):
    for number in (1, 2, 3):
        site.relay.joins(number)
    closes_without(site.relay, (11, 12, 13), 13, (1, 2, 3))
    config = str(site.config())
    for _ in range(3):
        assert run(["run", "--once", "--config", config]) == 0
        site.later(100)
    capsys.readouterr()

    assert run(["explain", make_relay_node(3), "--config", config]) == 0
    assert "1 scores are zeros derived for timed-out members" in capsys.readouterr().out
    assert run(["explain", make_relay_node(3), "--full", "--config", config]) == 0
    assert "membership derived" in capsys.readouterr().out


def test_publishing_is_rejected_for_a_network_that_uses_a_feed(site: Site, capsys):
    assert "feed.may_publish" in run_refused_command(
        capsys, "run", "--once", "--publish", "--config", site.config()
    )


def test_operator_can_accept_a_feed_that_was_rewound(site: Site, capsys):
    for number in range(1, 9):
        site.relay.joins(number)
    config = str(site.config())
    assert run(["run", "--once", "--config", config]) == 0
    site.later(100)
    assert run(["run", "--once", "--config", config]) == 0
    site.relay.rows = site.relay.rows[:2]
    site.later(100)
    assert run(["run", "--once", "--config", config]) == 0
    capsys.readouterr()
    assert run(["feed", "faults", "--config", config]) == 0
    assert "OPEN went_back at row 8" in capsys.readouterr().out

    assert "--from ID" in run_refused_command(capsys, "feed", "accept", "--config", config)
    assert run(["feed", "accept", "--from", "2", "--config", config]) == 0
    site.relay.next_id = 3
    site.relay.joins(9)
    for _ in range(3):
        assert run(["run", "--once", "--config", config]) == 0
        site.later(100)
    capsys.readouterr()
    assert run(["nodes", "--json", "--config", config]) == 0
    assert make_relay_node(9) in {
        row["node"] for row in json.loads(capsys.readouterr().out)["nodes"]
    }
