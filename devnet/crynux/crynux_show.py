"""The demo on a third-party network: contracts, nodes, the daemon, and the verdict.

`reporting_end` deploys the oracle contract, and `kickout_end` checks the kickout.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from devnet.anvil import CHAIN_ID
from devnet.crynux.commit_traffic import CommitTraffic
from devnet.crynux.crynux_network import VSS, CrynuxNetwork, crynux_network
from devnet.crynux.kickout_end import kickout_on
from devnet.crynux.reporting_end import Reporting, reporting_for
from devnet.crynux.verdict import (
    CHANGES,
    NodeReading,
    events_of,
    readings,
    rules_of,
)
from devnet.crynux.vss_traffic import VssTraffic
from devnet.demo.block_loop import BlockLoop, Watched, refuse_ended
from devnet.demo.cast import CAST, HOPELESS
from devnet.demo.daemon_process import Daemon, daemon, write_configuration
from devnet.demo.demo_pages import DemoTold, demo_pages
from devnet.demo.screen import Screen
from devnet.demo.show import START_TIME, ShowOptions, demo_chain, ports
from devnet.demo.snapshot import SnapshotReader
from devnet.demo.stage import Clock
from oracle.daemon.config.loader import read_config
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.kicks import KickState
from oracle.resources import format_program_command
from oracle.store.database import Store
from oracle.store.outbox.records import Account
from oracle.systems.registry import build_rules

_SEED = 20
# After the last act, the daemon has this many blocks to catch up.
_LAST_BLOCKS = 20
# Configuration sections that a read-only daemon does not need.
WITHOUT = ("dispatch", "oracle")


class Plays(Protocol):
    """The traffic of a network; no new task is ordered while `is_paused`."""

    is_resting: bool

    @property
    def is_idle(self) -> bool:
        """Whether no task is open."""
        ...

    @property
    def wave(self) -> int:
        """The average number of tasks per node so far."""
        ...

    def next_block(self, head: int) -> list[dict[str, str]]:
        """Return all transactions for the block after `head`."""
        ...


@dataclass(frozen=True, slots=True)
class CrynuxSummary:
    """The results of the demo; an empty `faults` means that all checks passed."""

    profile: str
    blocks: int
    events: int
    nodes: list[NodeReading]
    # Transactions in which the network kicked the hopeless node out; empty without reporting.
    put_out_in: tuple[str, ...]
    faults: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.faults

    def to_json(self) -> str:
        """Return the summary as JSON."""
        return json.dumps({"holds": self.holds, **asdict(self)}, indent=2)


class CrynuxShow:
    """A running demo; call `play` once, then `finish_and_verify`."""

    def __init__(
        self,
        network: CrynuxNetwork,
        traffic: Plays,
        loop: BlockLoop,
        reporting: Reporting | None = None,
    ) -> None:
        self._network = network
        self._traffic = traffic
        self._loop = loop
        self._reporting = reporting

    def play(self, running: Daemon, options: ShowOptions) -> None:
        """Play until the hopeless node is kicked out, or due to be if scores are not reported.

        Play at most `options.waves` waves.
        """
        while not self._is_over() and self._traffic.wave < options.waves:
            refused = self._refused()
            # A busy node cannot be kicked out, so the traffic pauses until the node is removed.
            self._traffic.is_resting = bool(refused)
            sent = self._traffic.next_block(self._loop.head)
            if self._reporting is not None and refused and self._traffic.is_idle:
                owner = self._network.owner
                sent += [self._reporting.retry_call(owner, node) for node in refused]
            self._loop.next_block(sent, running, options.block_seconds)

    def end(self, running: Daemon, options: ShowOptions) -> CrynuxSummary:
        """Wait until the daemon has caught up, and compare its scores with those of the chain."""
        loop = self._loop
        for _ in range(_LAST_BLOCKS):
            loop.next_block((), running, options.block_seconds)
            if loop.snapshot is not None and loop.snapshot.block >= loop.head:
                break
        lines = events_of(self._network)
        nodes = readings(self._network, lines, running.configuration)
        faults = [f"{one.name}: not as its chain says" for one in nodes if not one.equal]
        faults += self._unended(nodes)
        if len(nodes) < len(CAST):
            faults.append(f"{len(nodes)} of {len(CAST)} nodes are known")
        put_out_in = kickout_on(self._network, self._hopeless).transactions
        profile = self._network.profile
        return CrynuxSummary(profile, loop.head, len(lines), nodes, put_out_in, faults)

    def keep_working(self, running: Daemon) -> None:
        """Keep the network running slowly until the user stops it."""
        self._traffic.is_resting = False
        self._loop.keep_working(running, self._traffic.next_block)

    def _unended(self, nodes: Sequence[NodeReading]) -> list[str]:
        """Return the faults of the hopeless node's kickout."""
        if self._reporting is not None:
            return kickout_on(self._network, self._hopeless).faults(HOPELESS.name)
        is_due = any(one.is_due for one in nodes if one.node == self._hopeless)
        return [] if is_due else [f"{HOPELESS.name} is not due to be kicked out"]

    @property
    def _hopeless(self) -> Address:
        return self._network.nodes[HOPELESS.name]

    def _is_over(self) -> bool:
        snapshot = self._loop.snapshot
        if snapshot is None:
            return False
        if self._reporting is None:
            return any(one.node == self._hopeless for one in snapshot.due)
        gone = [row.address for row in snapshot.rows if row.figures.status == "kicked_out"]
        return self._hopeless in gone

    def _refused(self) -> list[Address]:
        """Return the nodes that the oracle expelled and the network refused to remove."""
        snapshot = self._loop.snapshot
        kicks = () if snapshot is None else snapshot.kicks
        return [kick.node for kick in kicks if kick.state is KickState.REFUSED]


@contextmanager
def crynux_show(
    screen: Screen, profile: str, options: ShowOptions
) -> Iterator[tuple[CrynuxShow, Daemon, dict[str, str]]]:
    """Start chain, contracts, database and daemon; all are stopped and deleted afterwards.

    Raises:
        InputError: no such network, a port is in use, or the chain cannot be installed.
        FatalError: the user stopped the demo before it had started.
    """
    with ExitStack() as opened:
        folder, chain = opened.enter_context(demo_chain(screen, options))
        clock = Clock(START_TIME)
        network = crynux_network(chain, clock, profile)
        placed = ", ".join(f"{name} {at}" for name, at in network.contracts.items())
        screen.say(f"deployed stand-ins of Crynux's contracts: {placed}")
        rules = build_rules(rules_of(profile), CHANGES[rules_of(profile)])
        reporting = reporting_for(network, clock, rules, folder) if profile == VSS else None
        path = folder / "demo.toml"
        write_settings(path, network, reporting)
        configuration = read_config(path)
        store = Store.open(configuration.database.url, create=True)
        opened.callback(store.close)
        refuse_ended(options.stop)
        parts = {one.name: one.part for one in CAST}
        gallery = SnapshotReader(store, network, rules, parts)
        nobody = Account(CHAIN_ID, ZERO_ADDRESS)
        loop = BlockLoop(chain, clock, screen, Watched(gallery, nobody), options.stop)
        pages = opened.enter_context(
            demo_pages(path, DemoTold(lambda: loop.head, lambda: clock.now, lambda: screen.act))
        )
        screen.name_pages(pages)
        sending = () if reporting is None else ("--publish",)
        screen.say(" ".join(("starting the daemon: qos-oracle run", *sending)))
        running = opened.enter_context(
            daemon(path, folder / "daemon.log", options.program, sending)
        )
        show = CrynuxShow(network, traffic_of(network, _SEED), loop, reporting)
        yield (
            show,
            running,
            {
                "pages": f"{pages}/",
                "chain": chain.url,
                "try": format_program_command("nodes", "--config", path),
            },
        )


def write_settings(path: Path, network: CrynuxNetwork, reporting: Reporting | None) -> None:
    """Write the configuration of a daemon that works in the folder of `path`."""
    made = settings_for(network, path.parent)
    if reporting is None:
        write_configuration(path, made, WITHOUT)
    else:
        write_configuration(path, {**made, **reporting.settings(path.parent)}, ("dispatch",))


def traffic_of(network: CrynuxNetwork, seed: int) -> Plays:
    """Return the traffic of a network; the same seed gives the same traffic."""
    return VssTraffic(network, seed) if network.profile == VSS else CommitTraffic(network, seed)


def settings_for(network: CrynuxNetwork, folder: Path) -> dict[str, dict[str, object]]:
    """Return the settings of a daemon that works in `folder` and sends no transactions."""
    rules = rules_of(network.profile)
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"endpoints": [network.chain.url]},
        "network": {"profile": network.profile, "contracts": network.watched},
        "rules": {"set": rules, "change": CHANGES[rules]},
        **ports(),
    }
