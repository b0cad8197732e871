"""A demo of today's Crynux: stakes on a local chain, everything else in a stand-in relay.

The daemon reads both. The verdict has three parts: the daemon's state equals the relay's rows as
read by this process; its Q_long equals the relay's within the bounds that the rows leave open; and
the audit finds no node of the honest relay that differs.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from devnet.anvil import free_port
from devnet.demo.block_loop import refuse_ended
from devnet.demo.daemon_process import Daemon, daemon, write_configuration
from devnet.demo.screen import Screen
from devnet.demo.show import ShowOptions, demo_chain
from devnet.relay.relay_history import RelayHistory
from devnet.relay.relay_traffic import TrafficPlan, generated
from devnet.relay.staked_chain import CONTRACT, StakedChain, staked_chain
from devnet.relay.stand_in_relay import StandInRelay, serving_relay
from oracle.daemon.config.loader import read_config
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import compute_reliability, get_status
from oracle.domain.state.node import Node
from oracle.queries.relay_audit.contradictions import RowContradictions
from oracle.queries.relay_audit.own_figures import DerivedNode, compute_figures_from_rows
from oracle.queries.relay_audit.relay_audit import Verdict, audit_relay
from oracle.queries.relay_audit.relay_watch import RelayWatch, WatchClock
from oracle.store.database import Store
from oracle.systems.crynux.crynux_rule_sets import RELAY

NETWORK = "crynux-relay"
_SEED = 7
# One minute of the public network takes three seconds here.
_TIME_SCALE = 0.05
_SECONDS, _SETTLE_SECONDS, _PATIENCE_SECONDS = 40, 10, 120
_POLL_SECONDS = 5.0
# A penalty may be seen one poll late, while H recovers.
_HEALTH_SLACK = 0.01
# Rounding difference between the relay's floats and the daemon's integers.
_ROUNDING = 1e-9
_WITHOUT = ("dispatch", "oracle", "limits")


@dataclass(frozen=True, slots=True)
class RelayReading:
    """One node: the daemon's figures, the relay's figures, and whether they match.

    `relays` is Q_long / 10 in the relay's own books, which must lie between `lowest` and
    `highest`. `zeros`: scores of 0 derived for silent members, for which the relay publishes no
    row.
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
        """Whether the relay's Q_long is within the bounds derived from the rows."""
        return self.lowest - _ROUNDING <= self.relays <= self.highest + _ROUNDING


@dataclass(frozen=True, slots=True)
class RelaySummary:
    """The results of the demo; an empty `faults` means that all checks passed."""

    rows: int
    blocks: int
    nodes: list[RelayReading]
    faults: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.faults

    def to_json(self) -> str:
        """Return the summary as JSON."""
        return json.dumps({"holds": self.holds, **asdict(self)}, indent=2)


@dataclass(slots=True)
class RelayShow:
    """A running demo; call `play` once, then `finish_and_verify`."""

    network: StakedChain
    history: RelayHistory
    url: str
    store: Store
    screen: Screen
    options: ShowOptions

    def play(self, running: Daemon) -> None:
        """Mine a block per second until the daemon has folded every row.

        Raises:
            FatalError: the daemon ended or was too slow, or the user stopped the demo.
        """
        until = time.monotonic() + _SECONDS + _SETTLE_SECONDS + _PATIENCE_SECONDS
        folded = -1
        while folded < len(self.history.rows) and time.monotonic() < until:
            self.network.mine()
            running.check()
            refuse_ended(self.options.stop)
            if (now := self._folded()) != folded:
                folded = now
                self.screen.say(f"{folded} of the relay's rows are folded")
            # The chain uses the wall clock, so nothing else is waited for here.
            self.options.stop.wait(1.0)

    def end(self) -> RelaySummary:
        """Compare the daemon's state with the rows, and the rows with the relay's figures."""
        with closing(RelayWatch.connect_to(self.url, 15, 1000, WatchClock())) as watch:
            watch.poll_relay(2, _POLL_SECONDS)
            with self.store.read_transaction() as uow:
                told = {node.address: node for node in uow.nodes.iterate_all()}
                seen = [(row.id, row.hash, row.time or 0) for row in uow.feed.iterate_settled()]
            watch.adopt_witness_times(seen)
            rows = [watch.rows[number] for number in sorted(watch.rows)]
            times = dict(watch.time_by_row)
            found = {one.node: one for one in audit_relay(watch, RowContradictions()).nodes}
        own = compute_figures_from_rows(rows, times).nodes
        nodes = []
        for address, one in self.history.cast.items():
            audit, kept = found[address], told.get(address)
            equal = kept is not None and self._is_as_said(kept, own[address])
            lowest, highest = own[address].compute_long_term_bounds()
            nodes.append(
                RelayReading(
                    name=one.name,
                    node=address,
                    status="unknown" if kept is None else get_status(kept),
                    long_term=own[address].compute_long_term(),
                    lowest=lowest,
                    highest=highest,
                    relays=self.history.books[address].marks[-1].long_term,
                    reliability=0.0 if kept is None else self._health(kept),
                    zeros=audit.zeros,
                    equal=equal,
                    audit=audit.verdict.value,
                )
            )
        faults = [f"{one.name}: not as the relay's rows say" for one in nodes if not one.equal]
        faults += [
            f"{one.name}: the relay's Q_long {one.relays:.4f} is not between "
            f"{one.lowest:.4f} and {one.highest:.4f}"
            for one in nodes
            if not one.is_within_bound
        ]
        faults += [
            f"{one.name}: the audit says {one.audit}"
            for one in nodes
            if one.audit == Verdict.DIFFERS.value
        ]
        if not any(one.audit == Verdict.AGREES.value for one in nodes):
            faults.append("the audit could prove nothing")
        head = int(self.network.chain.ask("eth_blockNumber"), 16)
        return RelaySummary(len(rows), head, nodes, faults)

    def _is_as_said(self, kept: Node, said: DerivedNode) -> bool:
        """Return whether the daemon's node matches rows, chain and, in its H, the books."""
        stakes = {self.network.nodes[one.name]: one.stake for one in self.network.cast}
        theirs = self.history.books[kept.address].marks[-1].health_at(self._now())
        return (
            list(kept.pool) == list(said.state.pool)
            and get_status(kept) == get_status(said.state)
            and kept.stake == stakes[kept.address]
            and abs(self._health(kept) - theirs) <= _HEALTH_SLACK
        )

    def _health(self, kept: Node) -> float:
        return compute_reliability(kept, int(self._now()), RELAY) / UNIT

    def _now(self) -> float:
        return time.clock_gettime(time.CLOCK_REALTIME)

    def _folded(self) -> int:
        with self.store.read_transaction() as uow:
            return uow.feed.count_folded_and_waiting()[0]


@contextmanager
def relay_show(screen: Screen, options: ShowOptions) -> Iterator[tuple[RelayShow, Daemon]]:
    """Start chain, stakes, relay, database and daemon; all are removed afterwards.

    Raises:
        InputError: a port is in use, or the chain cannot be installed.
        FatalError: the user stopped the demo before it had started.
    """
    with ExitStack() as opened:
        begun = int(time.clock_gettime(time.CLOCK_REALTIME)) - 5
        folder, chain = opened.enter_context(demo_chain(screen, options, begun))
        network = staked_chain(chain, begun)
        screen.say(f"deployed a stand-in of NodeStaking: {network.staking}; the nodes have staked")
        history = generated(_plan(network))
        relay = StandInRelay(history, lambda: time.clock_gettime(time.CLOCK_REALTIME))
        url = opened.enter_context(serving_relay(relay))
        screen.say(f"serving a stand-in of the relay: {url}, {len(history.rows)} rows to come")
        path = folder / "demo.toml"
        write_configuration(path, _settings(network, url, folder), _WITHOUT)
        store = Store.open(read_config(path).database.url, create=True)
        opened.callback(store.close)
        refuse_ended(options.stop)
        screen.say("starting the daemon: qos-oracle run")
        running = opened.enter_context(daemon(path, folder / "daemon.log", options.program, ()))
        yield RelayShow(network, history, url, store, screen, options), running


def _plan(network: StakedChain) -> TrafficPlan:
    return TrafficPlan(
        seed=_SEED,
        start=int(time.clock_gettime(time.CLOCK_REALTIME)) + 1,
        seconds=_SECONDS,
        gap_seconds=4.0,
        cast=network.cast,
        time_scale=_TIME_SCALE,
        at=network.nodes,
    )


def _settings(network: StakedChain, relay: str, folder: Path) -> dict[str, dict[str, object]]:
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"endpoints": [network.chain.url], "poll_seconds": 0.5, "finality_depth": 2},
        "network": {
            "profile": "crynux-staking",
            "contracts": {CONTRACT: network.staking},
            "options": {"credits": True},
        },
        "feed": {"url": relay, "settle_seconds": _SETTLE_SECONDS, "poll_seconds": 0.5},
        "rules": {"set": "relay"},
        "web": {"port": free_port()},
    }
