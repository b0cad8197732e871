"""Builds the network overview (nodes, score distribution, activity) and the public status."""

from itertools import pairwise

from pydantic import Field

from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.domain.scoring.node_figures import NODE_STATES, NodeState
from oracle.queries.answers import Answer, ApiModel, FractionText
from oracle.queries.api.node_order import NodeRanking
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.status import load_network_status
from oracle.queries.status_models import PublicStatus, build_public_health

_HISTOGRAM_BINS = 20
_QUARTERS = 4
SECONDS_BY_SPAN = {"1h": 3_600, "24h": 86_400, "7d": 604_800}
_BUCKET_COUNT_BY_SPAN = {"1h": 12, "24h": 24, "7d": 28}


class ActivityBucket(ApiModel):
    """The number of scores and timeouts in one part of the time span."""

    since: int = Field(
        description="Block time at which this part of the span begins, in unix seconds, included."
    )
    scores: int
    timeouts: int


class LastRound(ApiModel):
    """The newest report that the contract accepted."""

    round: int
    age_seconds: int
    as_of: int = Field(description="Block at which the report of the round was computed.")


class Waiting(ApiModel):
    """A problem that needs an operator, and the command to run."""

    what: str = Field(examples=["a report is held: 7 of 12 nodes would change by more than half"])
    command: str | None = Field(examples=["qos-oracle report release 30000104"])


class NetworkAnswer(Answer):
    """Totals, distribution and health of the network."""

    chain_id: int | None
    start_block: int | None
    nodes: int
    members: int
    states: dict[NodeState, int]
    histogram: list[int] = Field(
        description=(
            "Number of members in each of twenty equal ranges of QoS from 0 to 1; each includes "
            "its lower bound, and the last one also 1."
        ),
        min_length=_HISTOGRAM_BINS,
        max_length=_HISTOGRAM_BINS,
    )
    quartiles: list[FractionText] = Field(
        description=(
            "Minimum, first quartile, median, third quartile and maximum of the members' QoS; "
            "empty if there are no members."
        )
    )
    kickouts_due: int
    activity: list[ActivityBucket] = Field(
        description=(
            "Number of scores and of timeouts in equal parts of the span, oldest part first."
        )
    )
    last_round: LastRound | None
    tasks_waiting: int
    draws_standing: int
    halted: bool = Field(
        description="Whether a halt is active. During a halt, nothing is indexed, signed or sent."
    )
    waiting: list[Waiting] = Field(
        description="Problems that need a decision of the operator; empty if there are none."
    )


def build_network_overview(snapshot: ApiSnapshot, span: str = "24h") -> NetworkAnswer:
    """Return the network overview for a time span.

    `span` is a key of `SECONDS_BY_SPAN`.
    """
    ranking = snapshot.get_ranking()
    uow = snapshot.uow
    identity = snapshot.uow.identity.get()
    halts = uow.halts.list_open_halts()
    held_texts = [
        f"the report of period {hold.period} is held: {hold.reason}"
        for hold in uow.holds.list_awaiting_operator()
    ]
    halt_texts = [f"{halt.name}: {halt.reason}" for halt in halts]
    return NetworkAnswer(
        as_of=snapshot.as_of,
        chain_id=None if identity is None else identity.chain_id,
        start_block=None if identity is None else identity.start_block,
        nodes=len(ranking.nodes),
        members=ranking.member_count,
        states={state: ranking.counts.get(state, 0) for state in NODE_STATES},
        histogram=_compute_score_histogram(ranking),
        quartiles=_compute_score_quartiles(ranking),
        kickouts_due=len(uow.kickouts.list_open()),
        activity=_load_activity(snapshot, span),
        last_round=_load_last_round(snapshot),
        tasks_waiting=uow.tasks.count_waiting(),
        draws_standing=len(uow.draws.list_active()),
        halted=bool(halts),
        waiting=[
            *(Waiting(what=text, command="qos-oracle halt list") for text in halt_texts),
            *(
                Waiting(what=text, command="qos-oracle report release --help")
                for text in held_texts
            ),
        ],
    )


def _compute_score_histogram(ranking: NodeRanking) -> list[int]:
    """Count the members in QoS bins of equal width; the last bin includes 1."""
    # For each bin, count the members whose QoS is at least its lower bound.
    counts = [
        ranking.count_members_with_qos(UNIT * number // _HISTOGRAM_BINS)
        for number in range(_HISTOGRAM_BINS)
    ]
    return [count - higher_count for count, higher_count in pairwise([*counts, 0])]


def _compute_score_quartiles(ranking: NodeRanking) -> list[str]:
    """Return the quartiles of the members' QoS, each the QoS of an actual node."""
    last_rank = ranking.member_count
    if not last_rank:
        return []
    ranks = (
        last_rank - (last_rank - 1) * quarter // _QUARTERS for quarter in range(_QUARTERS + 1)
    )
    return [format_decimal(-ranking.get_ranked_key(rank).value) for rank in ranks]


def _load_activity(snapshot: ApiSnapshot, span: str) -> list[ActivityBucket]:
    bucket_count = _BUCKET_COUNT_BY_SPAN[span]
    span_seconds = SECONDS_BY_SPAN[span]
    bucket_seconds = span_seconds // bucket_count
    span_start = snapshot.cursor.time - span_seconds + 1
    last_block = snapshot.cursor.number
    score_count_by_bucket = snapshot.uow.activity.count_scores_by_time(
        span_start, bucket_seconds, last_block
    )
    timeout_count_by_bucket = snapshot.uow.activity.count_timeouts_by_time(
        span_start, bucket_seconds, last_block
    )
    return [
        ActivityBucket(
            since=span_start + bucket * bucket_seconds,
            scores=score_count_by_bucket.get(bucket, 0),
            timeouts=timeout_count_by_bucket.get(bucket, 0),
        )
        for bucket in range(bucket_count)
    ]


def _load_last_round(snapshot: ApiSnapshot) -> LastRound | None:
    newest_rounds = snapshot.uow.rounds.list_accepted(1)
    if not newest_rounds:
        return None
    newest_round = newest_rounds[-1]
    age_seconds = max(0, snapshot.cursor.time - newest_round.time)
    return LastRound(round=newest_round.round, age_seconds=age_seconds, as_of=newest_round.as_of)


def build_public_status(snapshot: ApiSnapshot) -> PublicStatus:
    """Return the public status from the database."""
    network = load_network_status(snapshot.uow)
    health = build_public_health(snapshot.load_health_report())
    return PublicStatus(as_of=snapshot.as_of, health=health, **network.model_dump())
