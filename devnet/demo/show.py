"""The demo from start to end: chain, contracts, nodes, the real daemon, and the verdict."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from devnet.anvil import CHAIN_ID, LocalChain, anvil, free_port
from devnet.demo.block_loop import BlockLoop, Watched, refuse_ended
from devnet.demo.cast import HOPELESS
from devnet.demo.daemon_process import PROGRAM, Daemon, daemon, write_configuration
from devnet.demo.demo_pages import DemoTold, demo_pages
from devnet.demo.demo_system import CRYNUX_SYSTEM, DemoSystem
from devnet.demo.ending import (
    Summary,
    drawn_again,
    end_of_the_hopeless,
    read_contest,
    summed_up,
)
from devnet.demo.screen import Screen
from devnet.demo.snapshot import SnapshotReader
from devnet.demo.stage import ACCOUNTS, Clock, Roles, Stage, set_stage
from devnet.demo.traffic import Traffic
from devnet.demo.verify import verdict_of
from oracle.daemon.config.loader import read_config
from oracle.domain.ids import Address
from oracle.domain.reports.kicks import KickState
from oracle.resources import format_program_command
from oracle.signing.keystore import create_keystore
from oracle.store.database import Store
from oracle.store.outbox.records import Account

# A round number, so that the clock on the screen is easy to follow.
START_TIME = 1_800_000_000
_SEED = 20
# After the last act, the last report has this many blocks to be accepted.
_LAST_BLOCKS = 60
# After the last wave, an open contest has this many blocks for its second group.
_CONTEST_BLOCKS = 120
# Disposable keys of a local chain need no slow key derivation.
_KEY_ITERATIONS = 1000


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """Options of the demo: at most `waves` waves, one block per `block_seconds` of wall time.

    `may_end_early`: too few waves for the kickout are no fault. `program` and `wrap_endpoint` let
    tests replace the daemon or alter the endpoint that it uses. `stop` is set when the demo must
    end early.
    """

    system: DemoSystem = CRYNUX_SYSTEM
    waves: int = 80
    may_end_early: bool = False
    block_seconds: float = 0.08
    port: int = 0
    program: Sequence[str] = PROGRAM
    through: Callable[[str], str] | None = None
    stop: Event = field(default_factory=Event)


class Show:
    """A running demo; call `play` once, then `finish_and_verify`."""

    def __init__(self, stage: Stage, clock: Clock, loop: BlockLoop, traffic: Traffic) -> None:
        self._stage = stage
        self._clock = clock
        self._loop = loop
        self._traffic = traffic

    def play(self, running: Daemon, options: ShowOptions) -> None:
        """Play waves until the hopeless node is kicked out, at most `options.waves`.

        After the last wave, an open contest is played to its end.
        """
        traffic, loop = self._traffic, self._loop
        contest_blocks = _CONTEST_BLOCKS
        while not self._is_kicked_out():
            may_order = traffic.wave + 1 < options.waves
            if traffic.is_idle and not may_order:
                if not traffic.has_open_contest or not contest_blocks:
                    return
                contest_blocks -= 1
            transactions = traffic.next_block(loop.head, may_order=may_order)
            loop.next_block(transactions, running, options.block_seconds)

    def end(self, running: Daemon, options: ShowOptions) -> Summary:
        """Wait for the withdrawal and the last report, then verify and sum up the demo."""
        kickout = end_of_the_hopeless(self._stage, self._clock)
        contest = read_contest(self._stage)
        loop = self._loop
        last_act = int(self._stage.chain.ask("eth_blockNumber"), 16)
        for _ in range(_LAST_BLOCKS):
            # Nodes still answer their open tasks; a task that times out would block its group.
            transactions = self._traffic.next_block(loop.head, may_order=False)
            loop.next_block(transactions, running, options.block_seconds)
            if loop.snapshot is not None and loop.snapshot.reported >= last_act:
                break
        stage = self._stage
        verdict = verdict_of(stage.chain.url, stage.network, stage.oracle, options.system)
        draws = drawn_again(running.configuration)
        summary = summed_up(stage, self._clock, verdict, draws, (kickout, contest))
        if options.may_end_early and kickout.executed_in is None:
            faults = [fault for fault in summary.faults if fault not in kickout.faults()]
            return replace(summary, faults=faults, kickout_played=False)
        return summary

    def keep_working(self, running: Daemon) -> None:
        """Keep the network running slowly until the user stops it."""
        self._loop.keep_working(running, self._traffic.next_block)

    def _is_kicked_out(self) -> bool:
        snapshot = self._loop.snapshot
        kicks = () if snapshot is None else snapshot.kicks
        node = self._stage.nodes[HOPELESS.name]
        return any(kick.node == node and kick.state is KickState.EXECUTED for kick in kicks)


@contextmanager
def demo_chain(
    screen: Screen, options: ShowOptions, start_time: int = START_TIME
) -> Iterator[tuple[Path, LocalChain]]:
    """Start an EVM chain and create a folder for the daemon; both are removed afterwards.

    `start_time`: of the first block, in unix seconds.

    Raises:
        InputError: the port is in use, or the chain cannot be installed.
    """
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="qos-oracle-demo-")))
        screen.say("starting a local EVM chain (Anvil)")
        url = opened.enter_context(
            anvil(port=options.port, accounts=ACCOUNTS, start_time=start_time)
        )
        chain = LocalChain(url)
        opened.callback(chain.close)
        yield folder, chain


@contextmanager
def show(screen: Screen, options: ShowOptions) -> Iterator[tuple[Show, Daemon, dict[str, str]]]:
    """Start chain, contracts, database and daemon; all are stopped and deleted afterwards.

    Raises:
        InputError: a port is in use, or the chain cannot be installed.
        FatalError: the user stopped the demo before it had started.
    """
    with ExitStack() as opened:
        folder, chain = opened.enter_context(demo_chain(screen, options))
        path, stage, clock = _prepared(folder, chain, screen, options)
        configuration = read_config(path)
        store = Store.open(configuration.database.url, create=True)
        opened.callback(store.close)
        refuse_ended(options.stop)
        system = options.system
        parts = {one.name: one.part for one in system.cast}
        gallery = SnapshotReader(store, stage, system.rules, parts)
        dispatcher = Account(CHAIN_ID, stage.dispatcher)
        loop = BlockLoop(chain, clock, screen, Watched(gallery, dispatcher), options.stop)
        pages = opened.enter_context(
            demo_pages(path, DemoTold(lambda: loop.head, lambda: clock.now, lambda: screen.act))
        )
        screen.name_pages(pages)
        screen.say("starting the daemon: qos-oracle run --publish --dispatch")
        running = opened.enter_context(daemon(path, folder / "daemon.log", options.program))
        web = f"http://{configuration.web.host}:{configuration.web.port}"
        addresses = {
            "pages": f"{pages}/",
            HOPELESS.name: f"{pages}/nodes/{stage.nodes[HOPELESS.name]}",
            "chain": chain.url,
            "api": f"{pages}/v1/network",
            "metrics": f"{web}/metrics",
            "try": format_program_command("explain", stage.nodes[HOPELESS.name], "--config", path),
        }
        yield Show(stage, clock, loop, Traffic(stage, _SEED, system)), running, addresses


def ports() -> dict[str, dict[str, object]]:
    """Return settings with free ports for the daemon and its pages."""
    return {"web": {"port": free_port()}, "api": {"port": 0}}


def _prepared(
    folder: Path, chain: LocalChain, screen: Screen, options: ShowOptions
) -> tuple[Path, Stage, Clock]:
    """Create keys, deploy the contracts, let the nodes join, and write the configuration."""
    keys = keys_in(folder)
    clock = Clock(START_TIME)
    system, roles = options.system, Roles(**{role: key.address for role, key in keys.items()})
    stage = set_stage(chain, clock, roles, system)
    screen.say(f"deployed TaskNetwork {stage.network} and QoSOracle {stage.oracle}")
    screen.say(f"{len(system.cast)} nodes joined, each with a stake of 400 ether")
    path = folder / "demo.toml"
    seen = options.through(chain.url) if options.through else chain.url
    made = made_for(folder, stage, keys, endpoint=seen)
    write_configuration(path, {**made, **system.settings, **ports()})
    return path, stage, clock


@dataclass(frozen=True, slots=True)
class Key:
    """An encrypted key of the demo, its password file and its address."""

    keystore: Path
    password_file: Path
    address: Address


def keys_in(folder: Path) -> dict[str, Key]:
    """Create the daemon's keys in a folder, one per role."""
    keys = {}
    for role in ("signer", "transmitter", "dispatcher"):
        files = (folder / f"{role}.json", folder / f"{role}.password")
        keys[role] = Key(*files, create_keystore(*files, iterations=_KEY_ITERATIONS))
    return keys


def made_for(
    folder: Path, stage: Stage, keys: Mapping[str, Key], *, endpoint: str
) -> dict[str, dict[str, object]]:
    """Return the settings that differ from run to run, for a daemon that works in `folder`."""
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"endpoints": [endpoint]},
        "network": {
            "contracts": {"TaskNetwork": stage.network},
            "labels": {address: name for name, address in stage.nodes.items()},
        },
        "oracle": {"address": stage.oracle, "evidence_folder": folder / "evidence"},
        "keys": {
            f"{role}_{part}": getattr(key, part)
            for role, key in keys.items()
            for part in ("keystore", "password_file")
        },
    }
