"""A show on a network that is not ours: its contracts, its nodes, the daemon, and the verdict.

What is reported and who is put out there, and how, stands in `reporting_end` and `kickout_end`.
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
# After the last act the daemon has so many blocks to catch up.
_LAST_BLOCKS = 20
# What a daemon that only reads is not told.
WITHOUT = ("dispatch", "oracle")


class Plays(Protocol):
    """The traffic of a network; nothing new is ordered while `is_resting`."""

    is_resting: bool

    @property
    def is_idle(self) -> bool:
        """Whether no task is under way."""
        ...

    @property
    def wave(self) -> int:
        """Every node has had about so many tasks."""
        ...

    def next_block(self, head: int) -> list[dict[str, str]]:
        """Return what everybody sends into the block after `head`."""
        ...


@dataclass(frozen=True, slots=True)
class CrynuxSummary:
    """The whole show in figures; `faults` empty means that everything holds."""

    profile: str
    blocks: int
    events: int
    nodes: list[NodeReading]
    # Where the network said that the hopeless node is out; empty where nobody reports.
    put_out_in: tuple[str, ...]
    faults: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.faults

    def to_json(self) -> str:
        """Write it for programs."""
        return json.dumps({"holds": self.holds, **asdict(self)}, indent=2)


class CrynuxShow:
    """A running show; `play` it once, then ask how it ends."""

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
        """Play until the hopeless node is out, or due where nobody reports.

        At most `options.waves`.
        """
        while not self._is_over() and self._traffic.wave < options.waves:
            refused = self._refused()
            # A node that is busy cannot be put out: the network rests until it is.
            self._traffic.is_resting = bool(refused)
            sent = self._traffic.next_block(self._loop.head)
            if self._reporting is not None and refused and self._traffic.is_idle:
                owner = self._network.owner
                sent += [self._reporting.retry_call(owner, node) for node in refused]
            self._loop.next_block(sent, running, options.block_seconds)

    def end(self, running: Daemon, options: ShowOptions) -> CrynuxSummary:
        """Let the daemon catch up; compare what it says with a reading of the chain itself."""
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
        """Go on with the network's work, slowly, until the user ends it."""
        self._traffic.is_resting = False
        self._loop.keep_working(running, self._traffic.next_block)

    def _unended(self, nodes: Sequence[NodeReading]) -> list[str]:
        """Return what is missing of the hopeless node's end."""
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
        """Return the nodes that the oracle has expelled and the network has not let go."""
        snapshot = self._loop.snapshot
        kicks = () if snapshot is None else snapshot.kicks
        return [kick.node for kick in kicks if kick.state is KickState.REFUSED]


@contextmanager
def crynux_show(
    screen: Screen, profile: str, options: ShowOptions
) -> Iterator[tuple[CrynuxShow, Daemon, dict[str, str]]]:
    """Set everything up: chain, contracts, database, daemon. All of it goes when it ends.

    Raises:
        InputError: no such network, a port in use, or the chain cannot be installed.
        FatalError: it was told to end before all was there.
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
    """Return what is played on a network; the same seed plays the same."""
    return VssTraffic(network, seed) if network.profile == VSS else CommitTraffic(network, seed)


def settings_for(network: CrynuxNetwork, folder: Path) -> dict[str, dict[str, object]]:
    """Return the settings of a daemon that works in `folder` and sends nothing."""
    rules = rules_of(network.profile)
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"endpoints": [network.chain.url]},
        "network": {"profile": network.profile, "contracts": network.watched},
        "rules": {"set": rules, "change": CHANGES[rules]},
        **ports(),
    }
