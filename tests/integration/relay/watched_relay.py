"""A simulated relay with a clock that tests set, and its audit."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from devnet.relay.relay_history import RelayHistory, RelaySource
from devnet.relay.relay_nodes import HONEST, RelayLies
from devnet.relay.relay_traffic import TrafficPlan, generate_history
from devnet.relay.stand_in_relay import FaultSwitch, StandInRelay, serve_relay
from oracle.domain.feed_rows import FeedRow
from oracle.queries.relay_audit.contradictions import RowContradictions
from oracle.queries.relay_audit.relay_audit import NodeAudit, RelayAudit, Verdict, audit_relay
from oracle.queries.relay_audit.relay_watch import RelayWatch, WatchClock

START = TrafficPlan().start


def history_of(seconds: int = 7200, lies: RelayLies = HONEST, **plan: float) -> RelayHistory:
    plan_fields = {"gap_seconds": 25.0, **plan}
    return generate_history(TrafficPlan(seconds=seconds, lies=lies, **plan_fields))  # type: ignore[arg-type]


def rows_of(history: RelayHistory) -> list[FeedRow]:
    """Return the rows that a reader takes from the stream."""
    sent = [timed_row.row.to_json() for timed_row in history.rows]
    return [
        FeedRow(
            row["id"], row["type"], row["node_address"], row["task_id_commitment"], row["args"]
        )
        for row in sent
    ]


@dataclass
class WatchedRelay:
    """A relay that is queried over HTTP; `now` is its clock and the auditor's."""

    played: RelaySource
    now: float
    faults: FaultSwitch = field(default_factory=FaultSwitch)

    @contextmanager
    def served(self) -> Iterator[str]:
        with serve_relay(StandInRelay(self.played, lambda: self.now, self.faults)) as url:
            yield url

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def audit(self, *, witness: bool = True, polls: int = 3) -> RelayAudit:
        """Audit the relay; with `witness`, the arrival time of each row was recorded."""
        clock = WatchClock(lambda: self.now, self.wait)
        with (
            self.served() as url,
            closing(RelayWatch.create_for_url(url, 5, 1000, clock)) as watch,
        ):
            watch.poll_relay(polls, 60)
            if witness and isinstance(self.played, RelayHistory):
                watch.adopt_witness_times(
                    (timed_row.row.id, watch.rows[timed_row.row.id].hash, int(timed_row.time))
                    for timed_row in self.played.rows
                    if timed_row.row.id in watch.rows
                )
            return audit_relay(watch, RowContradictions())


def audit_of(lies: RelayLies = HONEST, seconds: int = 7200, **options: bool) -> RelayAudit:
    """Audit a relay with these lies after `seconds`."""
    played = history_of(seconds + 600, lies)
    return WatchedRelay(played, START + seconds).audit(**options)


def differing(audit: RelayAudit) -> list[NodeAudit]:
    return [node for node in audit.nodes if node.verdict is Verdict.DIFFERS]
