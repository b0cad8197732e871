"""The network overview: nodes, score distribution, recent activity, and waiting actions."""

from pydantic import Field

from oracle.domain.fixed_point import UNIT, decimal_text
from oracle.domain.scoring.node_figures import NODE_STATES, NodeState
from oracle.queries.answers import Answer, ApiModel, FractionText
from oracle.queries.api.source import ApiSnapshot

_BINS = 20
_QUARTERS = 4
SPAN_SECONDS = {"1h": 3_600, "24h": 86_400, "7d": 604_800}
_BUCKETS = {"1h": 12, "24h": 24, "7d": 28}


class ActivityBucket(ApiModel):
    """The number of scores and of timeouts in one part of the span."""

    since: int = Field(description="Its beginning, unix seconds.")
    scores: int
    timeouts: int


class LastRound(ApiModel):
    """The newest report that the contract accepted."""

    round: int
    age_seconds: int
    as_of: int = Field(description="The block that it speaks of.")


class Waiting(ApiModel):
    """A matter that waits for a person, and the command to run."""

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
        description="Members by QoS in twenty equal parts of 0 to 1, the least first.",
        min_length=_BINS,
        max_length=_BINS,
    )
    quartiles: list[FractionText] = Field(
        description="Least, first quarter, half, third quarter and greatest; empty: no member."
    )
    kickouts_due: int
    activity: list[ActivityBucket] = Field(description="Equal parts of the span, oldest first.")
    last_round: LastRound | None
    tasks_waiting: int
    draws_standing: int
    halted: bool = Field(description="Nothing is sent, and a person has to look.")
    waiting: list[Waiting] = Field(description="What waits for a person; empty: nothing.")


def network(look: ApiSnapshot, span: str = "24h") -> NetworkAnswer:
    """Return the totals; `span`: a key of `SECONDS_BY_SPAN`."""
    ranking, uow, identity = look.ranking(), look.uow, look.uow.identity.get()
    scores = sorted(
        qos for node in ranking.nodes.values() if (qos := ranking.qos(node)) is not None
    )
    halts = uow.halts.all_closed()
    held = [
        f"the report of period {one.period} is held: {one.reason}" for one in uow.holds.waiting()
    ]
    stopped = [f"{halt.name}: {halt.reason}" for halt in halts]
    return NetworkAnswer(
        as_of=look.as_of,
        chain_id=None if identity is None else identity.chain_id,
        start_block=None if identity is None else identity.start_block,
        nodes=len(ranking.nodes),
        members=len(scores),
        states={state: ranking.counts.get(state, 0) for state in NODE_STATES},
        histogram=_histogram(scores),
        quartiles=_quartiles(scores),
        kickouts_due=len(uow.kickouts.open()),
        activity=_activity(look, span),
        last_round=_last_round(look),
        tasks_waiting=uow.tasks.count_waiting(),
        draws_standing=len(uow.draws.active()),
        halted=bool(halts),
        waiting=[
            *(Waiting(what=text, command="qos-oracle halt list") for text in stopped),
            *(Waiting(what=text, command="qos-oracle report release --help") for text in held),
        ],
    )


def _histogram(scores: list[int]) -> list[int]:
    bins = [0] * _BINS
    for qos in scores:
        bins[min(_BINS - 1, qos * _BINS // UNIT)] += 1
    return bins


def _quartiles(scores: list[int]) -> list[str]:
    """Return the quartiles by nearest rank, so that each is the QoS of an actual node."""
    if not scores:
        return []
    last = len(scores) - 1
    return [decimal_text(scores[last * part // _QUARTERS]) for part in range(_QUARTERS + 1)]


def _activity(look: ApiSnapshot, span: str) -> list[ActivityBucket]:
    many, seconds = _BUCKETS[span], SPAN_SECONDS[span]
    width, start = seconds // many, look.cursor.time - seconds + 1
    last = look.cursor.number
    scores = look.uow.activity.scores_by_time(start, width, last)
    timeouts = look.uow.activity.timeouts_by_time(start, width, last)
    return [
        ActivityBucket(
            since=start + part * width, scores=scores.get(part, 0), timeouts=timeouts.get(part, 0)
        )
        for part in range(many)
    ]


def _last_round(look: ApiSnapshot) -> LastRound | None:
    newest = look.uow.rounds.accepted(1)
    if not newest:
        return None
    accepted = newest[-1]
    age = max(0, look.cursor.time - accepted.time)
    return LastRound(round=accepted.round, age_seconds=age, as_of=accepted.as_of)
