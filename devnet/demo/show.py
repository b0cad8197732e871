"""Runs the demo from start to end, with its chain, nodes, daemon and verdict."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from devnet.anvil import CHAIN_ID, LocalChain, find_free_port, run_anvil
from devnet.demo.block_loop import BlockLoop, raise_if_stopped
from devnet.demo.daemon_process import (
    PROGRAM,
    DemoDaemon,
    run_daemon,
    serve_demo_pages,
    write_configuration,
)
from devnet.demo.demo_nodes import HOPELESS
from devnet.demo.demo_system import CRYNUX_SYSTEM, DemoSystem
from devnet.demo.ending import (
    DemoSummary,
    build_summary,
    compare_hot_set_with_leaves,
    fetch_burst_incident,
    fetch_contest,
    verify_draws,
    withdraw_stake_and_simulate_rejoin,
)
from devnet.demo.objector import ObjectionInApi, create_objectors
from devnet.demo.screen import Screen
from devnet.demo.snapshot import SnapshotReader
from devnet.demo.stage import (
    ACCOUNTS,
    ETHER,
    STAKE,
    ChainClock,
    DaemonRoles,
    Stage,
    deploy_demo_network,
)
from devnet.demo.stranger import Stranger
from devnet.demo.traffic import DemoTraffic
from devnet.demo.verify import run_verification
from oracle.daemon.config.loader import read_config
from oracle.domain.ids import Address
from oracle.domain.reports.node_kicks import KickState
from oracle.resources import format_program_command
from oracle.signing.keystore import create_keystore
from oracle.store.database import Store
from oracle.store.outbox.records import Account

# The demo starts at a round number, so that the clock on the screen is easy to follow.
START_TIME = 1_800_000_000
_SEED = 20
# Maximum number of blocks from the last phase until the last report is accepted.
_MAX_REPORT_BLOCKS = 60
# Maximum number of blocks from the last wave until the second group of an open contest ends.
_MAX_CONTEST_BLOCKS = 120
# Keys of a local chain are disposable, so they need no slow key derivation.
_KEY_ITERATIONS = 1000


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the demo.

    There are at most `waves` waves. `block_seconds` is the wall time of a block. If
    `may_end_early` is set, it is no fault if the waves end before the kickout. `program` and
    `wrap_endpoint` let tests replace the daemon or alter the endpoint that it uses. `stop` is set
    when the demo must end early.
    """

    system: DemoSystem = CRYNUX_SYSTEM
    waves: int = 80
    may_end_early: bool = False
    block_seconds: float = 0.08
    port: int = 0
    program: Sequence[str] = PROGRAM
    wrap_endpoint: Callable[[str], str] | None = None
    stop: Event = field(default_factory=Event)


class DemoShow:
    """A running demo.

    Call `run_until_kickout` once, then `finish_and_verify_demo`. `api_url` is the URL of the HTTP
    API, which provides the proofs of the nodes.
    """

    def __init__(
        self,
        stage: Stage,
        clock: ChainClock,
        loop: BlockLoop,
        traffic: DemoTraffic,
        api_url: str,
        system: DemoSystem,
    ) -> None:
        self._stage = stage
        self._clock = clock
        self._loop = loop
        self._traffic = traffic
        self._api_url = api_url
        self._stranger = Stranger(stage, api_url)
        self._objectors = create_objectors(
            stage, api_url, has_single_creator_node=system.has_single_creator_node
        )

    def run_until_kickout(self, daemon_process: DemoDaemon, options: DemoOptions) -> None:
        """Run waves of tasks until the hopeless node is kicked out.

        There are at most `options.waves` waves. The objections of other nodes have to be decided
        as well. After the last wave, blocks are mined until an open contest has ended.
        """
        traffic, loop = self._traffic, self._loop
        remaining_contest_blocks = _MAX_CONTEST_BLOCKS
        while not (self._is_hopeless_node_kicked_out() and self._has_all_objection_decisions()):
            can_order_tasks = traffic.wave + 1 < options.waves
            if traffic.is_idle and not can_order_tasks:
                if not traffic.has_open_contest or not remaining_contest_blocks:
                    return
                remaining_contest_blocks -= 1
            due_nodes = loop.list_nodes_due_for_kickout()
            for objector in self._objectors:
                objector.advance_objection(due_nodes, daemon_process.configuration)
            transactions = [
                *traffic.build_next_transactions(loop.head, may_order=can_order_tasks),
                *self._stranger.build_next_transactions(due_nodes),
            ]
            loop.mine_next_block(transactions, daemon_process, options.block_seconds)

    def finish_and_verify_demo(
        self, daemon_process: DemoDaemon, options: DemoOptions
    ) -> DemoSummary:
        """Withdraw the stake, wait for the last report, then verify and summarise the demo."""
        kickout_result = withdraw_stake_and_simulate_rejoin(self._stage, self._clock)
        contest = fetch_contest(self._stage)
        loop = self._loop
        last_act_block = int(self._stage.chain.make_request("eth_blockNumber"), 16)
        for _ in range(_MAX_REPORT_BLOCKS):
            # Nodes still answer their open tasks. Otherwise a task could time out and block its
            # group.
            transactions = self._traffic.build_next_transactions(loop.head, may_order=False)
            loop.mine_next_block(transactions, daemon_process, options.block_seconds)
            if loop.snapshot is not None and loop.snapshot.reported_block >= last_act_block:
                break
        stage = self._stage
        verification = run_verification(
            stage.chain.url, (stage.network, stage.oracle), self._api_url, options.system
        )
        draws = verify_draws(daemon_process.configuration)
        hot_set = compare_hot_set_with_leaves(stage, verification, self._api_url)
        # The burst of timeouts ends long before the kickout. If there was a kickout, there must
        # therefore be an incident.
        has_burst = options.system.has_burst and kickout_result.executed_in is not None
        burst = fetch_burst_incident(stage, self._api_url) if has_burst else None
        objections = [] if kickout_result.executed_in is None else self._list_objections()
        results = (kickout_result, contest, hot_set, burst)
        summary = build_summary(
            stage, self._clock, verification, draws, results, objections=objections
        )
        if options.may_end_early and kickout_result.executed_in is None:
            faults = [
                fault for fault in summary.faults if fault not in kickout_result.list_faults()
            ]
            return replace(summary, faults=faults, kickout_played=False)
        return summary

    def run_until_stopped(self, daemon_process: DemoDaemon) -> None:
        """Keep the network running slowly until the user stops it."""
        self._loop.run_until_stopped(daemon_process, self._traffic.build_next_transactions)

    def _list_objections(self) -> list[ObjectionInApi]:
        return [objector.outcome for objector in self._objectors]

    def _has_all_objection_decisions(self) -> bool:
        """Return whether all objections that should prevent a kickout are decided."""
        return all(
            objection.is_decided
            for objection in self._list_objections()
            if objection.should_be_upheld
        )

    def _is_hopeless_node_kicked_out(self) -> bool:
        snapshot = self._loop.snapshot
        kicks = () if snapshot is None else snapshot.kicks
        hopeless_address = self._stage.nodes[HOPELESS.name]
        return any(
            kick.node == hopeless_address and kick.state is KickState.EXPELLED for kick in kicks
        )


@contextmanager
def start_demo_chain(
    screen: Screen,
    options: DemoOptions,
    start_time: int = START_TIME,
    account_count: int = ACCOUNTS,
) -> Iterator[tuple[Path, LocalChain]]:
    """Start an EVM chain and create a folder for the daemon, and remove both afterwards.

    `start_time` is the time of the first block in unix seconds. `account_count` is the number of
    accounts with ether.

    Raises:
        InputError: the port is in use, or the chain cannot be installed.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qos-oracle-demo-")))
        screen.print_line("starting a local EVM chain (Anvil)")
        url = stack.enter_context(
            run_anvil(port=options.port, accounts=account_count, start_time=start_time)
        )
        chain = LocalChain(url)
        stack.callback(chain.close)
        yield folder, chain


@contextmanager
def start_demo(
    screen: Screen, options: DemoOptions
) -> Iterator[tuple[DemoShow, DemoDaemon, dict[str, str]]]:
    """Start chain, contracts, database and daemon, and remove all of them afterwards.

    Raises:
        InputError: a port is in use, or the chain cannot be installed.
        FatalError: the user stopped the demo before it had started.
    """
    with ExitStack() as stack:
        folder, chain = stack.enter_context(start_demo_chain(screen, options))
        config_path, stage, clock = _set_up_network(folder, chain, screen, options)
        configuration = read_config(config_path)
        store = Store.open(configuration.database.url, create=True)
        stack.callback(store.close)
        raise_if_stopped(options.stop)
        system = options.system
        role_by_node = {node.name: node.role for node in system.nodes}
        snapshot_reader = SnapshotReader(store, stage, system.rules, role_by_node)
        dispatcher = Account(CHAIN_ID, stage.dispatcher)
        loop = BlockLoop(chain, clock, screen, snapshot_reader, dispatcher, options.stop)
        pages = stack.enter_context(
            serve_demo_pages(
                config_path, lambda: loop.head, lambda: clock.now, lambda: screen.current_phase
            )
        )
        screen.show_pages_url(pages)
        screen.print_line("starting the daemon: qos-oracle run --publish --dispatch")
        daemon_process = stack.enter_context(
            run_daemon(config_path, folder / "daemon.log", options.program)
        )
        web_url = f"http://{configuration.web.host}:{configuration.web.port}"
        addresses = {
            "pages": f"{pages}/",
            HOPELESS.name: f"{pages}/nodes/{stage.nodes[HOPELESS.name]}",
            "chain": chain.url,
            "api": f"{pages}/v1/network",
            "metrics": f"{web_url}/metrics",
            "try": format_program_command(
                "explain", stage.nodes[HOPELESS.name], "--config", config_path
            ),
        }
        yield (
            DemoShow(stage, clock, loop, DemoTraffic(stage, _SEED, system), pages, system),
            daemon_process,
            addresses,
        )


def build_port_settings() -> dict[str, dict[str, object]]:
    """Build settings that give free ports to the daemon and its web pages."""
    return {"web": {"port": find_free_port()}, "api": {"port": 0}}


def _set_up_network(
    folder: Path, chain: LocalChain, screen: Screen, options: DemoOptions
) -> tuple[Path, Stage, ChainClock]:
    """Create keys, deploy contracts, let the nodes join, and write the configuration."""
    keys = create_keys(folder)
    clock = ChainClock(START_TIME)
    system = options.system
    roles = DaemonRoles(**{role: key.address for role, key in keys.items()})
    stage = deploy_demo_network(chain, clock, roles, system)
    contracts_text = ", ".join(f"{name} {address}" for name, address in stage.contracts.items())
    screen.print_line(f"deployed {contracts_text}")
    screen.print_line(
        f"{len(system.nodes)} nodes joined, each with a stake of {STAKE // ETHER} ether"
    )
    config_path = folder / "demo.toml"
    endpoint_url = options.wrap_endpoint(chain.url) if options.wrap_endpoint else chain.url
    settings = build_run_settings(folder, stage, keys, endpoint=endpoint_url)
    objections = {"address": stage.objections, "accept_posts": True}
    settings |= {"objections": objections, **system.settings, **build_port_settings()}
    write_configuration(config_path, settings)
    return config_path, stage, clock


@dataclass(frozen=True, slots=True)
class DemoKey:
    """An encrypted key of the demo, with its password file and its address."""

    keystore: Path
    password_file: Path
    address: Address


def create_keys(folder: Path) -> dict[str, DemoKey]:
    """Create a key for each role of the daemon in a folder.

    The result contains the keys by role.
    """
    key_by_role = {}
    for role in ("signer", "transmitter", "dispatcher"):
        key_files = (folder / f"{role}.json", folder / f"{role}.password")
        key_by_role[role] = DemoKey(
            *key_files, create_keystore(*key_files, iterations=_KEY_ITERATIONS)
        )
    return key_by_role


def build_run_settings(
    folder: Path, stage: Stage, keys: Mapping[str, DemoKey], *, endpoint: str
) -> dict[str, dict[str, object]]:
    """Build the settings of a run for a daemon whose files are in `folder`."""
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"endpoints": [endpoint]},
        "network": {
            "contracts": {"TaskNetwork": stage.network},
            "labels": {address: name for name, address in stage.nodes.items()},
        },
        "oracle": {"address": stage.oracle, "evidence_folder": folder / "evidence"},
        "hot_set": {"address": stage.hot_set},
        "keys": {
            f"{role}_{key_field}": getattr(key, key_field)
            for role, key in keys.items()
            for key_field in ("keystore", "password_file")
        },
    }
