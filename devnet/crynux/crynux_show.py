"""Runs the demo on a third-party network from its contracts to the verdict.

`reporting_end` deploys the oracle contract, and `kickout_end` checks the kickout.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol

from devnet.anvil import CHAIN_ID
from devnet.crynux.commit_traffic import CommitTraffic
from devnet.crynux.crynux_network import ACCOUNTS, VSS, CrynuxNetwork, deploy_crynux_network
from devnet.crynux.kickout_end import fetch_kickout_result
from devnet.crynux.reporting_end import ReportingSetup, deploy_oracle_and_adapter
from devnet.crynux.verdict import (
    RULE_CHANGES,
    NodeComparison,
    compare_nodes_with_replay,
    fetch_event_lines,
    get_rule_set_name,
)
from devnet.crynux.vss_traffic import VssTraffic
from devnet.demo.block_loop import BlockLoop, raise_if_stopped
from devnet.demo.daemon_process import (
    DemoDaemon,
    run_daemon,
    serve_demo_pages,
    write_configuration,
)
from devnet.demo.demo_nodes import DEMO_NODES, HOPELESS
from devnet.demo.node_proofs import fetch_node_proof, verify_proof_on_chain
from devnet.demo.screen import Screen
from devnet.demo.show import START_TIME, DemoOptions, build_port_settings, start_demo_chain
from devnet.demo.snapshot import SnapshotReader
from devnet.demo.stage import ChainClock
from oracle.daemon.config.loader import read_config
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.node_kicks import KickState
from oracle.resources import format_program_command
from oracle.store.database import Store
from oracle.store.outbox.records import Account
from oracle.systems.registry import build_rules

_SEED = 20
# Maximum number of blocks within which the daemon must catch up after the kickout.
_MAX_CATCH_UP_BLOCKS = 20
# A read-only daemon does not need these configuration sections.
OMITTED_SECTIONS = ("dispatch", "oracle")


class CrynuxTraffic(Protocol):
    """Simulates the participants of a network.

    No new task is ordered while `is_paused` is set.
    """

    is_paused: bool

    @property
    def is_idle(self) -> bool:
        """Whether no task is open."""
        ...

    @property
    def wave(self) -> int:
        """The average number of tasks per node so far."""
        ...

    def build_next_transactions(self, head: int) -> list[dict[str, str]]:
        """Build all transactions of the participants for the block after `head`."""
        ...


@dataclass(frozen=True, slots=True)
class CrynuxSummary:
    """The results of the demo.

    An empty `faults` means that all checks passed.
    """

    profile: str
    blocks: int
    events: int
    nodes: list[NodeComparison]
    # Transactions in which the network kicked out the hopeless node. There are none without
    # reporting.
    put_out_in: tuple[str, ...]
    faults: list[str] = field(default_factory=list)

    @property
    def has_passed(self) -> bool:
        return not self.faults

    def to_json(self) -> str:
        return json.dumps({"holds": self.has_passed, **asdict(self)}, indent=2)


class CrynuxShow:
    """A running demo.

    Call `run_until_kickout` once, then `wait_and_verify_scores`.
    """

    def __init__(
        self,
        network: CrynuxNetwork,
        traffic: CrynuxTraffic,
        loop: BlockLoop,
        api_url: str,
        reporting: ReportingSetup | None = None,
    ) -> None:
        """Create the demo.

        The proofs of nodes are fetched from the HTTP API at `api_url`.
        """
        self._network = network
        self._traffic = traffic
        self._loop = loop
        self._api_url = api_url
        self._reporting = reporting

    def run_until_kickout(self, daemon_process: DemoDaemon, options: DemoOptions) -> None:
        """Mine blocks until the hopeless node is kicked out.

        At most `options.waves` waves of tasks are run. If the daemon does not report scores, the
        demo ends once the kickout is due.
        """
        while not self._has_reached_kickout() and self._traffic.wave < options.waves:
            refused_nodes = self._list_nodes_with_refused_kickout()
            # The network does not kick out a busy node. The traffic therefore pauses until the
            # node has been removed.
            self._traffic.is_paused = bool(refused_nodes)
            transactions = self._traffic.build_next_transactions(self._loop.head)
            if self._reporting is not None and refused_nodes and self._traffic.is_idle:
                owner = self._network.owner
                transactions += [
                    self._reporting.build_retry_transaction(owner, node) for node in refused_nodes
                ]
            self._loop.mine_next_block(transactions, daemon_process, options.block_seconds)

    def wait_and_verify_scores(
        self, daemon_process: DemoDaemon, options: DemoOptions
    ) -> CrynuxSummary:
        """Wait for the daemon to catch up, then compare its scores with a replay of the chain."""
        loop = self._loop
        for _ in range(_MAX_CATCH_UP_BLOCKS):
            loop.mine_next_block((), daemon_process, options.block_seconds)
            if loop.snapshot is not None and loop.snapshot.block >= loop.head:
                break
        lines = fetch_event_lines(self._network)
        nodes = [
            replace(reading, proven=self._verify_proof(reading.node))
            for reading in compare_nodes_with_replay(
                self._network, lines, daemon_process.configuration
            )
        ]
        faults = [
            f"{reading.name}: the daemon's figures differ from a replay of the chain"
            for reading in nodes
            if not reading.equal
        ]
        faults += [
            f"{reading.name}: no proof of its leaf leads to the root on chain"
            for reading in nodes
            if reading.proven is False
        ]
        faults += self._list_kickout_faults(nodes)
        if len(nodes) < len(DEMO_NODES):
            faults.append(f"the daemon knows only {len(nodes)} of {len(DEMO_NODES)} nodes")
        kickout_transactions = fetch_kickout_result(
            self._network, self._hopeless_address
        ).transactions
        profile = self._network.profile
        return CrynuxSummary(profile, loop.head, len(lines), nodes, kickout_transactions, faults)

    def _verify_proof(self, node: Address) -> bool | None:
        """Verify a node's proof in the last round on chain, and return the result.

        The result is None if the daemon publishes no reports.
        """
        if self._reporting is None:
            return None
        proof = fetch_node_proof(self._api_url, node)
        return proof is not None and verify_proof_on_chain(
            self._network.chain, self._reporting.oracle, node, proof
        )

    def run_until_stopped(self, daemon_process: DemoDaemon) -> None:
        """Keep the network running slowly until the user stops it."""
        self._traffic.is_paused = False
        self._loop.run_until_stopped(daemon_process, self._traffic.build_next_transactions)

    def _list_kickout_faults(self, nodes: Sequence[NodeComparison]) -> list[str]:
        """List the faults in the kickout of the hopeless node, one per line."""
        if self._reporting is not None:
            return fetch_kickout_result(self._network, self._hopeless_address).list_faults(
                HOPELESS.name
            )
        is_due = any(reading.is_due for reading in nodes if reading.node == self._hopeless_address)
        return [] if is_due else [f"{HOPELESS.name} is not due to be kicked out"]

    @property
    def _hopeless_address(self) -> Address:
        return self._network.nodes[HOPELESS.name]

    def _has_reached_kickout(self) -> bool:
        snapshot = self._loop.snapshot
        if snapshot is None:
            return False
        if self._reporting is None:
            return any(
                due_kickout.node == self._hopeless_address for due_kickout in snapshot.due_kickouts
            )
        kicked_out_addresses = [
            row.address for row in snapshot.rows if row.node_scores.status == "kicked_out"
        ]
        return self._hopeless_address in kicked_out_addresses

    def _list_nodes_with_refused_kickout(self) -> list[Address]:
        """Return the nodes that the oracle expelled but the network did not remove."""
        snapshot = self._loop.snapshot
        kicks = () if snapshot is None else snapshot.kicks
        return [kick.node for kick in kicks if kick.state is KickState.REFUSED]


@contextmanager
def start_crynux_demo(
    screen: Screen, profile: str, options: DemoOptions
) -> Iterator[tuple[CrynuxShow, DemoDaemon, dict[str, str]]]:
    """Start chain, contracts, database and daemon, and remove all of them afterwards.

    Raises:
        InputError: the network is unknown, a port is in use, or the chain cannot be installed.
        FatalError: the user stopped the demo before it had started.
    """
    with ExitStack() as stack:
        folder, chain = stack.enter_context(
            start_demo_chain(screen, options, account_count=ACCOUNTS)
        )
        clock = ChainClock(START_TIME)
        network = deploy_crynux_network(chain, clock, profile)
        contracts_text = ", ".join(
            f"{name} {address}" for name, address in network.contracts.items()
        )
        screen.print_line(f"deployed stand-ins of Crynux's contracts: {contracts_text}")
        rules = build_rules(get_rule_set_name(profile), RULE_CHANGES[get_rule_set_name(profile)])
        reporting = (
            deploy_oracle_and_adapter(network, clock, rules, folder) if profile == VSS else None
        )
        config_path = folder / "demo.toml"
        write_crynux_configuration(config_path, network, reporting)
        configuration = read_config(config_path)
        store = Store.open(configuration.database.url, create=True)
        stack.callback(store.close)
        raise_if_stopped(options.stop)
        role_by_node = {node.name: node.role for node in DEMO_NODES}
        snapshot_reader = SnapshotReader(store, network, rules, role_by_node)
        unused_account = Account(CHAIN_ID, ZERO_ADDRESS)
        loop = BlockLoop(chain, clock, screen, snapshot_reader, unused_account, options.stop)
        pages = stack.enter_context(
            serve_demo_pages(
                config_path, lambda: loop.head, lambda: clock.now, lambda: screen.current_phase
            )
        )
        screen.show_pages_url(pages)
        run_options = () if reporting is None else ("--publish",)
        screen.print_line(" ".join(("starting the daemon: qos-oracle run", *run_options)))
        daemon_process = stack.enter_context(
            run_daemon(config_path, folder / "daemon.log", options.program, run_options)
        )
        show = CrynuxShow(network, create_traffic(network, _SEED), loop, pages, reporting)
        yield (
            show,
            daemon_process,
            {
                "pages": f"{pages}/",
                "chain": chain.url,
                "try": format_program_command("nodes", "--config", config_path),
            },
        )


def write_crynux_configuration(
    path: Path, network: CrynuxNetwork, reporting: ReportingSetup | None
) -> None:
    """Write the configuration of a daemon whose files are in the folder of `path`."""
    settings = build_settings(network, path.parent)
    if reporting is None:
        write_configuration(path, settings, OMITTED_SECTIONS)
    else:
        write_configuration(
            path, {**settings, **reporting.build_settings(path.parent)}, ("dispatch",)
        )


def create_traffic(network: CrynuxNetwork, seed: int) -> CrynuxTraffic:
    """Create the traffic of a network.

    The same seed produces the same traffic.
    """
    return VssTraffic(network, seed) if network.profile == VSS else CommitTraffic(network, seed)


def build_settings(network: CrynuxNetwork, folder: Path) -> dict[str, dict[str, object]]:
    """Build the settings of a daemon that sends no transactions.

    Its files are in `folder`.
    """
    rule_set_name = get_rule_set_name(network.profile)
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"endpoints": [network.chain.url]},
        "network": {"profile": network.profile, "contracts": network.profile_contracts},
        "rules": {"set": rule_set_name, "change": RULE_CHANGES[rule_set_name]},
        **build_port_settings(),
    }
