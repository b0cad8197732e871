"""What became of what we sent, counted from the rows of the outbox.

A restart changes none (docs/explanation/transactions.md#i14, docs/explanation/daemon.md#metrics).
"""

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from oracle.telemetry.metrics import REGISTRY

# By the values of the labels.
_Labelled = Mapping[Any, float]

SECONDS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0)
BLOCKS = (1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 64.0, 128.0)
BUMPS = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)


SIMULATIONS = Counter(
    "oracle_txmgr_simulations_total",
    "Calls that were tried before they were signed, by what they would do.",
    ["kind", "result"],
    registry=REGISTRY,
)


class BucketCounts:
    """How often a value fell into each bucket; `bounds` are the buckets' upper ends."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._tally = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value; one below zero (a clock that went back) counts as zero."""
        value = max(0.0, value)
        self._tally[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> "BucketCounts":
        """Return another one that has counted the same."""
        copied = BucketCounts(self.bounds)
        copied._tally = self._tally[:]
        copied.total = self.total
        return copied

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Yield (upper end, values up to it), as Prometheus wants them."""
        seen = 0
        for bound, many in zip((*self.bounds, float("inf")), self._tally, strict=True):
            seen += many
            yield ("+Inf" if bound == float("inf") else str(bound)), seen


@dataclass(frozen=True, slots=True)
class AccountFigures:
    """One of our accounts; what an endpoint tells is None while it is not known.

    `runway_seconds`: how long the balance lasts at the pace of the last day; None: nothing was
    spent. `gap`: nonces given out below the chain's next one and above its last that no
    transaction of ours holds.
    """

    next_nonce: int
    open_nonces: int
    reserved_wei: int
    latest: int | None = None
    final: int | None = None
    balance_wei: int | None = None
    runway_seconds: float | None = None
    # Why it is paused: the kind of its pause; None: it does not.
    paused: str | None = None

    @property
    def gap(self) -> int | None:
        """Return how many nonces nobody holds: the next transactions would wait for ever."""
        if self.latest is None or self.latest > self.next_nonce:
            return None
        return max(0, self.next_nonce - self.latest - self.open_nonces)


@dataclass(frozen=True, slots=True)
class ContractFigures:
    """The oracle contract as it stood at the last look; times in unix seconds."""

    round: int
    as_of_lag_blocks: int
    paused_until: int
    kicks_paused: bool
    rules_agree: bool
    kick_tokens: int
    # Of the last accepted round.
    pushed_at: int = 0


@dataclass(slots=True)
class OutboxFigures:
    """What `/metrics` shows of the outbox, by the labels of the metrics.

    Of nonces that are over, since the database was made: `outcomes` by (kind, `success` |
    `reverted` | `superseded` | `foreign`), and by kind of call the gas, the fees in wei and the
    spreads of seconds, blocks and bumps. `ages` are seconds by (kind, state), `attempts` count by
    (kind, reason), `kickouts` by how they ended on chain. `accounts` by role (`transmitter`,
    `dispatcher`). `report_words` and `report_deviation` (in 0.0001 of QoS) are those of the
    newest report that was cut. `given_up`: statements that could land and are not tried any more.
    """

    outcomes: Tally[tuple[str, str]] = field(default_factory=Tally)
    gas: Tally[str] = field(default_factory=Tally)
    wei: Tally[str] = field(default_factory=Tally)
    to_mined: dict[str, BucketCounts] = field(default_factory=dict)
    to_final: dict[str, BucketCounts] = field(default_factory=dict)
    blocks: dict[str, BucketCounts] = field(default_factory=dict)
    bumps: dict[str, BucketCounts] = field(default_factory=dict)
    ages: Mapping[tuple[str, str], float] = field(default_factory=dict)
    attempts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    accounts: Mapping[str, AccountFigures] = field(default_factory=dict)
    kickouts: Mapping[str, int] = field(default_factory=dict)
    contract: ContractFigures | None = None
    report_words: int | None = None
    report_deviation: int | None = None
    heartbeat_seconds: int | None = None
    given_up: int = 0

    def add_nonce(self, kind: str, outcome: str, *, gas_used: int, cost_wei: int) -> None:
        """Count a nonce that is over; `cost_wei` is its gas and a rollup's fee for its data."""
        self.outcomes[kind, outcome] += 1
        self.gas[kind] += gas_used
        self.wei[kind] += cost_wei

    def add_mined(
        self, kind: str, *, seconds: int, final_seconds: int | None, blocks: int | None, bumps: int
    ) -> None:
        """Count how long a nonce of ours took from its opening; `bumps` follow its first attempt.

        `final_seconds` or `blocks` are None where the rows do not tell them.
        """
        self.to_mined.setdefault(kind, BucketCounts(SECONDS)).add(seconds)
        if final_seconds is not None:
            self.to_final.setdefault(kind, BucketCounts(SECONDS)).add(final_seconds)
        if blocks is not None:
            self.blocks.setdefault(kind, BucketCounts(BLOCKS)).add(blocks)
        self.bumps.setdefault(kind, BucketCounts(BUMPS)).add(bumps)

    def copy_counters(self) -> "OutboxFigures":
        """Return figures that have counted the same nonces, and show nothing else yet."""
        return OutboxFigures(
            outcomes=Tally(self.outcomes),
            gas=Tally(self.gas),
            wei=Tally(self.wei),
            to_mined=_copy_spreads(self.to_mined),
            to_final=_copy_spreads(self.to_final),
            blocks=_copy_spreads(self.blocks),
            bumps=_copy_spreads(self.bumps),
        )


def _copy_spreads(spreads: Mapping[str, BucketCounts]) -> dict[str, BucketCounts]:
    return {kind: spread.copy() for kind, spread in spreads.items()}


class _Figures(Collector):
    def __init__(self) -> None:
        self.figures: OutboxFigures | None = None

    @override
    def collect(self) -> Iterable[Metric]:
        figures = self.figures
        if figures is None:
            return
        yield from _of_nonces(figures)
        yield _gauges(
            "oracle_txmgr_intent_age_seconds",
            "How long the longest-waiting call is in this state.",
            ("kind", "state"),
            figures.ages,
        )
        yield _counters(
            "oracle_txmgr_attempts",
            "Transactions signed, by why: first, bump, replacement, noop.",
            ("kind", "reason"),
            figures.attempts,
        )
        yield _gauges(
            "oracle_kickout_calls",
            "Kickouts on chain, by what became of them: live, vetoed, cancelled, outdated,"
            " executed, refused (by the network), readmitted.",
            ("state",),
            {(state,): many for state, many in figures.kickouts.items()},
        )
        yield GaugeMetricFamily(
            "oracle_quorum_statements_given_up",
            "Statements that could land and were tried as often as they may be.",
            value=figures.given_up,
        )
        yield from _of_accounts(figures.accounts)
        if figures.contract is not None:
            yield from _of_contract(figures.contract)
        if figures.report_words is not None and figures.report_deviation is not None:
            yield from _of_report(figures.report_words, figures.report_deviation)
        if figures.heartbeat_seconds is not None:
            yield GaugeMetricFamily(
                "oracle_report_heartbeat_seconds",
                "oracle.heartbeat_seconds, for alerts.",
                value=figures.heartbeat_seconds,
            )


def _of_nonces(figures: OutboxFigures) -> Iterator[Metric]:
    yield _counters(
        "oracle_txmgr_transactions_final",
        "Nonces that are over: success, reverted, superseded by another call of ours,"
        " foreign. Recounted from the database at every start.",
        ("kind", "outcome"),
        figures.outcomes,
    )
    for name, text, counts in (
        ("oracle_txmgr_gas_used", "Gas of final transactions.", figures.gas),
        ("oracle_txmgr_spend_wei", "Fees of final transactions, all in all.", figures.wei),
    ):
        yield _counters(name, text, ("kind",), {(kind,): many for kind, many in counts.items()})
    for name, text, shown in (
        ("oracle_txmgr_time_to_mined_seconds", "From the nonce to the receipt.", figures.to_mined),
        ("oracle_txmgr_time_to_final_seconds", "From the nonce to its end.", figures.to_final),
        ("oracle_txmgr_blocks_to_mined", "Blocks from the nonce to the receipt.", figures.blocks),
        (
            "oracle_txmgr_bumps_per_transaction",
            "All attempts of a nonce after the first: fee bumps, replacements, no-ops.",
            figures.bumps,
        ),
    ):
        family = HistogramMetricFamily(name, text, labels=["kind"])
        for kind, spread in sorted(shown.items()):
            family.add_metric([kind], list(spread.buckets()), spread.total)
        yield family


def _of_accounts(accounts: Mapping[str, AccountFigures]) -> Iterator[Metric]:
    for name, text, read in _OF_AN_ACCOUNT:
        known = {(role,): read(one) for role, one in accounts.items()}
        shown = {labels: value for labels, value in known.items() if value is not None}
        yield _gauges(name, text, ("account",), shown)
    yield _gauges(
        "oracle_txmgr_paused",
        "1 for each account that sends nothing, by why.",
        ("account", "kind"),
        {(role, one.paused): 1 for role, one in accounts.items() if one.paused is not None},
    )


# Name, meaning, and what to read; None: not known now.
_OF_AN_ACCOUNT: tuple[tuple[str, str, Callable[[AccountFigures], float | None]], ...] = (
    ("oracle_txmgr_nonce_next", "Nonce that the next call takes.", lambda a: a.next_nonce),
    ("oracle_txmgr_nonce_chain_latest", "Nonces used at the newest block.", lambda a: a.latest),
    ("oracle_txmgr_nonce_chain_finalized", "Nonces used at the final block.", lambda a: a.final),
    ("oracle_txmgr_nonce_gap", "Nonces that nobody holds below one of ours.", lambda a: a.gap),
    ("oracle_txmgr_nonces_open", "Nonces given out and not over.", lambda a: a.open_nonces),
    ("oracle_txmgr_balance_wei", "What the account has.", lambda a: a.balance_wei),
    ("oracle_txmgr_reserved_wei", "What open nonces may still cost.", lambda a: a.reserved_wei),
    ("oracle_txmgr_runway_seconds", "Balance over the day's pace.", lambda a: a.runway_seconds),
)


def _of_contract(told: ContractFigures) -> Iterator[Metric]:
    for name, text, value in (
        ("oracle_report_round_on_chain", "Round of the contract at the newest block.", told.round),
        (
            "oracle_report_asof_lag_blocks",
            "Blocks since the last report's.",
            told.as_of_lag_blocks,
        ),
        (
            "oracle_report_contract_paused_until",
            "Unix time until which the contract is paused.",
            told.paused_until,
        ),
        ("oracle_kickout_paused", "1 while the contract takes none.", int(told.kicks_paused)),
        ("oracle_report_rules_agree", "0: other rules than ours.", int(told.rules_agree)),
        ("oracle_kickout_tokens", "Kickouts that the bucket still allows.", told.kick_tokens),
    ):
        yield GaugeMetricFamily(name, text, value=value)


def _of_report(words: int, deviation: int) -> Iterator[Metric]:
    yield GaugeMetricFamily("oracle_report_words", "Words of the newest report.", value=words)
    yield GaugeMetricFamily(
        "oracle_report_deviation_max",
        "Largest difference between the newest report and the chain, in 0.0001 of QoS.",
        value=deviation,
    )


def _gauges(name: str, text: str, labels: tuple[str, ...], values: _Labelled) -> Metric:
    family = GaugeMetricFamily(name, text, labels=list(labels))
    for label_values, value in sorted(values.items()):
        family.add_metric(label_values, value)
    return family


def _counters(name: str, text: str, labels: tuple[str, ...], values: _Labelled) -> Metric:
    family = CounterMetricFamily(name, text, labels=list(labels))
    for label_values, value in sorted(values.items()):
        family.add_metric(label_values, value)
    return family


_FIGURES = _Figures()
REGISTRY.register(_FIGURES)


def show(figures: OutboxFigures | None) -> None:
    """Let `/metrics` show these figures from now on; None: nothing."""
    _FIGURES.figures = figures
