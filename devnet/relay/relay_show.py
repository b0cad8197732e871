"""A demo of Crynux's current network with a local chain and a stand-in relay.

Nodes have stakes on the chain. The daemon reads both. The verdict has three parts. The daemon's
state must equal the relay's rows, as read by this process. The daemon's Q_long must equal the
relay's, within the bounds that follow from the rows. The audit must find no difference at any node
of the honest relay.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from devnet.anvil import find_free_port
from devnet.demo.block_loop import raise_if_stopped
from devnet.demo.daemon_process import DemoDaemon, run_daemon, write_configuration
from devnet.demo.screen import Screen
from devnet.demo.show import DemoOptions, start_demo_chain
from devnet.relay.relay_history import RelayHistory
from devnet.relay.relay_traffic import TrafficPlan, generate_history
from devnet.relay.staked_chain import ACCOUNTS, CONTRACT_NAME, StakedChain, deploy_staked_chain
from devnet.relay.stand_in_relay import StandInRelay, serve_relay
from oracle.daemon.config.loader import read_config
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import compute_reliability, get_status
from oracle.domain.state import Node
from oracle.queries.relay_audit.contradictions import RowContradictions
from oracle.queries.relay_audit.own_figures import DerivedNode, derive_figures_from_rows
from oracle.queries.relay_audit.relay_audit import Verdict, audit_relay
from oracle.queries.relay_audit.relay_watch import RelayWatch, WatchClock
from oracle.store.database import Store
from oracle.systems.crynux.crynux_rule_sets import RELAY

NETWORK = "crynux-relay"
_SEED = 7
# A minute of the public network takes three seconds in the demo.
_TIME_SCALE = 0.05
_TRAFFIC_SECONDS, _SETTLE_SECONDS, _MAX_WAIT_SECONDS = 40, 10, 120
_POLL_SECONDS = 5.0
# H recovers continuously. If the audit sees a penalty one poll late, its value therefore differs
# slightly.
_MAX_HEALTH_DIFFERENCE = 0.01
# Maximum rounding difference between the relay's floats and the daemon's integers.
_MAX_ROUNDING_ERROR = 1e-9
_OMITTED_SECTIONS = ("dispatch", "oracle", "limits")


@dataclass(frozen=True, slots=True)
class RelayNodeComparison:
    """The values of a node in the daemon and in the relay, and whether they match.

    `relays` is Q_long / 10 in the relay's books, and must be between `lowest` and `highest`.
    `zeros` are the derived scores of 0 for silent members, for which the relay publishes no row.
    """

    name: str
    node: Address
    status: str
    long_term: float
    lowest: float
    highest: float
    relays: float
    reliability: float
    zeros: int
    equal: bool
    audit: str

    @property
    def is_within_bound(self) -> bool:
        """Whether the relay's Q_long lies within the bounds that follow from the rows."""
        return (
            self.lowest - _MAX_ROUNDING_ERROR <= self.relays <= self.highest + _MAX_ROUNDING_ERROR
        )


@dataclass(frozen=True, slots=True)
class RelaySummary:
    """The results of the demo.

    An empty `faults` means that all checks passed.
    """

    rows: int
    blocks: int
    nodes: list[RelayNodeComparison]
    faults: list[str] = field(default_factory=list)

    @property
    def has_passed(self) -> bool:
        return not self.faults

    def to_json(self) -> str:
        return json.dumps({"holds": self.has_passed, **asdict(self)}, indent=2)


@dataclass(slots=True)
class RelayShow:
    """A running demo.

    Call `run_until_folded` once, then `verify_stored_state`.
    """

    network: StakedChain
    history: RelayHistory
    url: str
    store: Store
    screen: Screen
    options: DemoOptions

    def run_until_folded(self, daemon_process: DemoDaemon) -> None:
        """Mine a block each second until the daemon has processed every row.

        Raises:
            FatalError: the daemon ended or was too slow, or the user stopped the demo.
        """
        deadline = time.monotonic() + _TRAFFIC_SECONDS + _SETTLE_SECONDS + _MAX_WAIT_SECONDS
        folded_count = -1
        while folded_count < len(self.history.rows) and time.monotonic() < deadline:
            self.network.mine_block()
            daemon_process.raise_if_ended()
            raise_if_stopped(self.options.stop)
            if (new_count := self._count_folded_rows()) != folded_count:
                folded_count = new_count
                self.screen.print_line(f"the daemon has folded {folded_count} of the relay's rows")
            # The chain runs in real time, so there is nothing else to wait for.
            self.options.stop.wait(1.0)

    def verify_stored_state(self) -> RelaySummary:
        """Compare the daemon's state with the rows, and the rows with the relay's figures."""
        with closing(RelayWatch.create_for_url(self.url, 15, 1000, WatchClock())) as watch:
            watch.poll_relay(2, _POLL_SECONDS)
            with self.store.read_transaction() as uow:
                node_by_address = {node.address: node for node in uow.nodes.iterate_all()}
                settled_rows = [
                    (row.id, row.hash, row.time or 0) for row in uow.feed.iterate_settled_rows()
                ]
            watch.adopt_witness_times(settled_rows)
            rows = [watch.rows[row_id] for row_id in sorted(watch.rows)]
            time_by_row = dict(watch.time_by_row)
            audit_by_node = {
                audited_node.node: audited_node
                for audited_node in audit_relay(watch, RowContradictions()).nodes
            }
        recomputed_nodes = derive_figures_from_rows(rows, time_by_row).nodes
        node_readings = []
        for address, role in self.history.node_by_address.items():
            audit = audit_by_node[address]
            stored_node = node_by_address.get(address)
            is_equal = stored_node is not None and self._matches_rows(
                stored_node, recomputed_nodes[address]
            )
            lowest, highest = recomputed_nodes[address].compute_long_term_score_bounds()
            node_readings.append(
                RelayNodeComparison(
                    name=role.name,
                    node=address,
                    status="unknown" if stored_node is None else get_status(stored_node),
                    long_term=recomputed_nodes[address].compute_long_term_score(),
                    lowest=lowest,
                    highest=highest,
                    relays=self.history.state_history_by_node[address].states[-1].long_term,
                    reliability=0.0
                    if stored_node is None
                    else self._compute_reliability(stored_node),
                    zeros=audit.zeros,
                    equal=is_equal,
                    audit=audit.verdict.value,
                )
            )
        faults = [
            f"{reading.name}: the daemon's state differs from the relay's rows"
            for reading in node_readings
            if not reading.equal
        ]
        faults += [
            f"{reading.name}: the relay's Q_long {reading.relays:.4f} is not between "
            f"{reading.lowest:.4f} and {reading.highest:.4f}"
            for reading in node_readings
            if not reading.is_within_bound
        ]
        faults += [
            f"{reading.name}: the result of the audit is: {reading.audit}"
            for reading in node_readings
            if reading.audit == Verdict.DIFFERS.value
        ]
        if not any(reading.audit == Verdict.AGREES.value for reading in node_readings):
            faults.append("the audit could not confirm the figures of any node")
        head = int(self.network.chain.make_request("eth_blockNumber"), 16)
        return RelaySummary(len(rows), head, node_readings, faults)

    def _matches_rows(self, stored_node: Node, recomputed_node: DerivedNode) -> bool:
        """Return whether a stored node agrees with rows, stake on chain and H in the books."""
        stake_by_node = {
            self.network.address_by_name[node.name]: node.stake
            for node in self.network.relay_nodes
        }
        relay_reliability = (
            self.history.state_history_by_node[stored_node.address]
            .states[-1]
            .compute_reliability(self._read_wall_clock())
        )
        return (
            list(stored_node.pool) == list(recomputed_node.state.pool)
            and get_status(stored_node) == get_status(recomputed_node.state)
            and stored_node.stake == stake_by_node[stored_node.address]
            and abs(self._compute_reliability(stored_node) - relay_reliability)
            <= _MAX_HEALTH_DIFFERENCE
        )

    def _compute_reliability(self, stored_node: Node) -> float:
        return compute_reliability(stored_node, int(self._read_wall_clock()), RELAY) / UNIT

    def _read_wall_clock(self) -> float:
        return time.clock_gettime(time.CLOCK_REALTIME)

    def _count_folded_rows(self) -> int:
        with self.store.read_transaction() as uow:
            return uow.feed.count_folded_and_waiting_rows()[0]


@contextmanager
def start_relay_demo(
    screen: Screen, options: DemoOptions
) -> Iterator[tuple[RelayShow, DemoDaemon]]:
    """Start chain, stakes, relay, database and daemon, and remove all of them afterwards.

    Raises:
        InputError: a port is in use, or the chain cannot be installed.
        FatalError: the user stopped the demo before it had started.
    """
    with ExitStack() as stack:
        start_time = int(time.clock_gettime(time.CLOCK_REALTIME)) - 5
        folder, chain = stack.enter_context(
            start_demo_chain(screen, options, start_time, account_count=ACCOUNTS)
        )
        network = deploy_staked_chain(chain, start_time)
        screen.print_line(
            f"deployed a stand-in of NodeStaking: {network.staking_address}; the nodes have staked"
        )
        history = generate_history(_build_traffic_plan(network))
        relay = StandInRelay(history, lambda: time.clock_gettime(time.CLOCK_REALTIME))
        url = stack.enter_context(serve_relay(relay))
        screen.print_line(
            f"serving a stand-in of the relay: {url}, which will publish {len(history.rows)} rows"
        )
        config_path = folder / "demo.toml"
        write_configuration(config_path, _build_settings(network, url, folder), _OMITTED_SECTIONS)
        store = Store.open(read_config(config_path).database.url, create=True)
        stack.callback(store.close)
        raise_if_stopped(options.stop)
        screen.print_line("starting the daemon: qos-oracle run")
        daemon_process = stack.enter_context(
            run_daemon(config_path, folder / "daemon.log", options.program, ())
        )
        yield RelayShow(network, history, url, store, screen, options), daemon_process


def _build_traffic_plan(network: StakedChain) -> TrafficPlan:
    return TrafficPlan(
        seed=_SEED,
        start=int(time.clock_gettime(time.CLOCK_REALTIME)) + 1,
        seconds=_TRAFFIC_SECONDS,
        gap_seconds=4.0,
        relay_nodes=network.relay_nodes,
        time_scale=_TIME_SCALE,
        address_by_name=network.address_by_name,
    )


def _build_settings(
    network: StakedChain, relay: str, folder: Path
) -> dict[str, dict[str, object]]:
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"endpoints": [network.chain.url], "poll_seconds": 0.5, "finality_depth": 2},
        "network": {
            "profile": "crynux-staking",
            "contracts": {CONTRACT_NAME: network.staking_address},
            "options": {"credits": True},
        },
        "feed": {"url": relay, "settle_seconds": _SETTLE_SECONDS, "poll_seconds": 0.5},
        "rules": {"set": "relay"},
        "web": {"port": find_free_port()},
    }
