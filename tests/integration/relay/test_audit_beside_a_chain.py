"""`audit relay --config`: a relay kicks out a node whose stake is still on a real chain."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from devnet.anvil import LocalChain, run_anvil
from devnet.relay.relay_history import RelayHistory
from devnet.relay.relay_nodes import RelayLies
from devnet.relay.relay_traffic import TrafficPlan, generate_history
from devnet.relay.staked_chain import ACCOUNTS, CONTRACT_NAME, StakedChain, deploy_staked_chain
from devnet.relay.stand_in_relay import StandInRelay, serve_relay
from oracle.cli.inspect import audit_commands
from oracle.cli.main import run
from oracle.queries.relay_audit.relay_watch import WatchClock
from tests.support.cli.local_network import Settings, write_config

pytestmark = pytest.mark.slow

# Seconds: the length of the relay's history, the time of the first poll, and that of the last
# indexed block.
PLAYED, LOOKED, READ, PATIENCE = 1800, 2000, 2800, 600


@dataclass
class Site:
    network: StakedChain
    history: RelayHistory
    config: Path
    now: float

    def audit(self, *flags: str) -> int:
        return run(["audit", "relay", "--config", str(self.config), "--json", *flags])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    now = int(time.clock_gettime(time.CLOCK_REALTIME))
    with ExitStack() as opened:
        chain = LocalChain(
            opened.enter_context(run_anvil(port=0, accounts=ACCOUNTS, start_time=now - 60))
        )
        opened.callback(chain.close)
        network = deploy_staked_chain(chain, now - 60)
        plan = TrafficPlan(
            start=now + 60, seconds=PLAYED, gap_seconds=25.0, relay_nodes=network.relay_nodes,
            address_by_name=network.address_by_name, lies=RelayLies(early_kick=20),
        )  # fmt: skip
        new_site = Site(
            network, generate_history(plan), tmp_path / "audit.toml", float(now + LOOKED)
        )
        url = opened.enter_context(
            serve_relay(StandInRelay(new_site.history, lambda: new_site.now))
        )
        for later in (LOOKED, READ, READ + 10, READ + 20):
            chain.mine_and_check_receipts(now + later, [])
        settings: Settings = {
            "database": {"url": f"sqlite:///{tmp_path / 'oracle.sqlite'}"},
            "chain": {
                "id": int(chain.make_request("eth_chainId"), 16),
                "endpoints": [chain.url],
                "start_block": 0,
                "finality_depth": 2,
            },
            "network": {
                "profile": "crynux-staking",
                "contracts": {CONTRACT_NAME: network.staking_address},
                "options": {"credits": True},
            },
            "feed": {"url": url, "drift_seconds": 3600},
            "rules": {"set": "relay"},
        }
        write_config(settings, new_site.config)

        def wait(seconds: float) -> None:
            new_site.now += seconds

        clock = WatchClock(lambda: new_site.now, wait)
        monkeypatch.setattr(audit_commands, "WatchClock", lambda: clock)
        yield new_site


def test_audit_fails_if_a_kicked_out_node_does_not_unstake(site: Site, capsys):
    (kick,) = [
        timed_row.row for timed_row in site.history.rows if timed_row.row.type == "NodeKickedOut"
    ]
    for seconds in (0, 100, READ - LOOKED):
        site.now += seconds
        assert run(["run", "--once", "--config", str(site.config)]) == 0
    capsys.readouterr()

    assert site.audit("--patience", str(PATIENCE)) == 1

    printed = capsys.readouterr()
    (contradiction,) = json.loads(printed.out)["contradictions"]["found"]
    assert (contradiction["kind"], contradiction["row"]) == ("kick_without_unstake", kick.id)
    assert "1 rows contradict" in printed.err
    # It is still open whether the chain follows.
    site.audit("--patience", str(2 * PATIENCE))
    printed = capsys.readouterr()
    contradictions = json.loads(printed.out)["contradictions"]
    assert (contradictions["found"], contradictions["unjudged"]) == ([], 1)


def test_audit_without_url_or_database_raises_input_error(site: Site, capsys):
    assert run(["audit", "relay"]) == 2
    assert "--url" in capsys.readouterr().err
    assert site.audit() == 2
    assert "migrate" in capsys.readouterr().err
