"""A show on a network that is not ours: its contracts, its nodes, the daemon, and the verdict.

The daemon indexes and scores; who reports and kicks out stands in `kickout_end`.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from oracle.daemon.config.loader import load
from oracle.devnet.anvil import CHAIN_ID, LocalChain, anvil, free_port
from oracle.devnet.crynux.commit_traffic import CommitTraffic
from oracle.devnet.crynux.crynux_network import ACCOUNTS, VSS, CrynuxNetwork, crynux_network
from oracle.devnet.crynux.vss_traffic import VssTraffic
from oracle.devnet.demo.block_loop import BlockLoop, Watched, refuse_ended
from oracle.devnet.demo.cast import CAST, HOPELESS
from oracle.devnet.demo.daemon_process import Daemon, daemon, write_configuration
from oracle.devnet.demo.screen import Screen
from oracle.devnet.demo.show import START_TIME, ShowOptions
from oracle.devnet.demo.snapshot import SnapshotReader
from oracle.devnet.demo.stage import Clock
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import FatalError
from oracle.store.database import Store
from oracle.store.outbox.records import Account
from oracle.systems.registry import rule_set

_SEED = 20
# After the last act the daemon has so many blocks to catch up.
_LAST_BLOCKS = 20
# Who gives out the tasks there, and who reports: not this daemon.
WITHOUT = ("dispatch", "oracle")
# What is told of a node by both, in the same words.
_COMPARED = ("status", "excluded", "kickout_due", "long_term", "reliability", "qos")
_CHANGES: Mapping[str, Mapping[str, str]] = {
    # Who is always the last of three has a mean of 2.0 exactly.
    "seed": {"kickout_below": "3"},
    # The weights were never published.
    "legacy": {
        "legacy.vram_weight": "0.25",
        "legacy.timeout_weight": "0.25",
        "legacy.speed_weight": "0.5",
        "legacy.least_timeout_seconds": "60",
        "legacy.kickout_below": "7",
        "legacy.kickout_tasks": "3",
    },
}


class Plays(Protocol):
    """The traffic of a network."""

    @property
    def wave(self) -> int:
        """Every node has had about so many tasks."""
        ...

    def next_block(self, head: int) -> list[dict[str, str]]:
        """Return what everybody sends into the block after `head`."""
        ...


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What the daemon tells of a node; `equal` where a reading of the chain says the same."""

    name: str
    node: Address
    status: str
    qos: str | None
    is_due: bool
    equal: bool


@dataclass(frozen=True, slots=True)
class CrynuxSummary:
    """The whole show in figures; `faults` empty means that everything holds."""

    profile: str
    blocks: int
    events: int
    nodes: list[NodeReading]
    faults: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.faults

    def to_json(self) -> str:
        """Write it for programs."""
        return json.dumps({"holds": self.holds, **asdict(self)}, indent=2)


class CrynuxShow:
    """A running show; `play` it once, then ask how it ends."""

    def __init__(self, network: CrynuxNetwork, traffic: Plays, loop: BlockLoop) -> None:
        self._network = network
        self._traffic = traffic
        self._loop = loop

    def play(self, running: Daemon, options: ShowOptions) -> None:
        """Play until the hopeless node is due to be kicked out, at most `options.waves`."""
        while not self._is_due() and self._traffic.wave < options.waves:
            sent = self._traffic.next_block(self._loop.head)
            self._loop.next_block(sent, running, options.block_seconds)

    def end(self, running: Daemon, options: ShowOptions) -> CrynuxSummary:
        """Let the daemon catch up; compare what it says with a reading of the chain itself."""
        loop = self._loop
        for _ in range(_LAST_BLOCKS):
            loop.next_block((), running, options.block_seconds)
            if loop.snapshot is not None and loop.snapshot.block >= loop.head:
                break
        lines = _events(self._network)
        told = json.loads(_printed("nodes", "--json", "--config", str(running.configuration)))
        at = int(self._network.chain.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
        wanted = _replayed(lines, self._network.profile, at)
        nodes = [_reading(self._network, row, wanted) for row in told]
        faults = [f"{one.name}: not as its chain says" for one in nodes if not one.equal]
        if not any(one.is_due for one in nodes if one.name == HOPELESS.name):
            faults.append(f"{HOPELESS.name} is not due to be kicked out")
        if len(nodes) < len(CAST):
            faults.append(f"{len(nodes)} of {len(CAST)} nodes are known")
        return CrynuxSummary(self._network.profile, loop.head, len(lines), nodes, faults)

    def idle(self, running: Daemon) -> None:
        """Go on mining empty blocks, one a second, until told to end."""
        self._loop.idle(running)

    def _is_due(self) -> bool:
        snapshot = self._loop.snapshot
        due = () if snapshot is None else snapshot.due
        return any(one.node == self._network.nodes[HOPELESS.name] for one in due)


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
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="qos-oracle-demo-")))
        screen.say("starting a local EVM chain (Anvil)")
        url = opened.enter_context(
            anvil(port=options.port, accounts=ACCOUNTS, start_time=START_TIME)
        )
        chain = LocalChain(url)
        opened.callback(chain.close)
        clock = Clock(START_TIME)
        network = crynux_network(chain, clock, profile)
        placed = ", ".join(f"{name} {at}" for name, at in network.contracts.items())
        screen.say(f"deployed stand-ins of Crynux's contracts: {placed}")
        path = folder / "demo.toml"
        write_configuration(path, settings_for(network, folder), WITHOUT)
        configuration = load(path)
        store = Store.open(configuration.database.url, create=True)
        opened.callback(store.close)
        refuse_ended(options.stop)
        screen.say("starting the daemon: qos-oracle run")
        running = opened.enter_context(
            daemon(path, folder / "daemon.log", options.program, sending=())
        )
        parts = {one.name: one.part for one in CAST}
        rules = rules_of(profile)
        gallery = SnapshotReader(store, network, rule_set(rules, _CHANGES[rules]), parts)
        nobody = Account(CHAIN_ID, ZERO_ADDRESS)
        loop = BlockLoop(chain, clock, screen, Watched(gallery, nobody), options.stop)
        show = CrynuxShow(network, traffic_of(network, _SEED), loop)
        yield show, running, {"chain": url, "try": f"qos-oracle nodes --config {path}"}


def traffic_of(network: CrynuxNetwork, seed: int) -> Plays:
    """Return what is played on a network; the same seed plays the same."""
    return VssTraffic(network, seed) if network.profile == VSS else CommitTraffic(network, seed)


def rules_of(profile: str) -> str:
    """Return the name of the rule set that a network's own time knew."""
    return "seed" if profile == VSS else "legacy"


def settings_for(network: CrynuxNetwork, folder: Path) -> dict[str, dict[str, object]]:
    """Return the settings of a daemon that works in `folder` and sends nothing."""
    rules = rules_of(network.profile)
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"endpoints": [network.chain.url]},
        "network": {"profile": network.profile, "contracts": network.watched},
        "rules": {"set": rules, "change": _CHANGES[rules]},
        "web": {"port": free_port()},
    }


def _reading(
    network: CrynuxNetwork, told: dict[str, Any], wanted: Mapping[str, dict[str, Any]]
) -> NodeReading:
    recomputed = wanted.get(told["node"], {})
    is_equal = all(told[name] == recomputed.get(name) for name in _COMPARED)
    return NodeReading(
        name=network.name_of(Address(told["node"])),
        node=Address(told["node"]),
        status=told["status"],
        qos=told["qos"],
        is_due=told["kickout_due"],
        equal=is_equal,
    )


def _events(network: CrynuxNetwork) -> list[str]:
    """Let a process of its own read the whole chain."""
    contracts = json.dumps(network.watched)
    module = "oracle.devnet.crynux.chain_reading"
    said = _output(["-m", module, network.chain.url, network.profile, contracts])
    return said.splitlines()


def _replayed(lines: list[str], profile: str, at: int) -> dict[str, dict[str, Any]]:
    """Return what `qos-oracle replay` prints about the nodes at a time, by address."""
    rules = rules_of(profile)
    changes = [f"--set={name}={text}" for name, text in _CHANGES[rules].items()]
    written = "\n".join(lines) + "\n"
    said = _printed("replay", "-", "--rules", rules, *changes, "--at", str(at), given=written)
    return {row["node"]: row for row in json.loads(said)["nodes"]}


def _printed(*arguments: str, given: str = "") -> str:
    return _output(["-m", "oracle", *arguments], given)


def _output(arguments: list[str], given: str = "") -> str:
    """Return what a process of ours prints.

    Raises:
        FatalError: it failed; the line is its last word.
    """
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, *arguments], input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise FatalError(f"{arguments[1]} {arguments[2]} failed: {last}")
    return done.stdout
