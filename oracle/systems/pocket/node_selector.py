"""Pocket's node selector, which records relay outcomes and assigns tickets to nodes.

The selector uses no clock, random number or chain, so the same calls give the same results. The
daemon, `select`, `backtest` and a gateway all use this selector. See
docs/explanation/pocket.md#the-selector.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import compute_quantile, round_to_five_decimals
from oracle.systems.pocket.parameters import ArticleParameters, Parameters, PortalParameters
from oracle.systems.pocket.ranking import ChainMemory, NodeStats, Ranking, rank_nodes
from oracle.systems.pocket.relay_outcomes import BLAME_BY_KIND, Blame, RelayOutcome


@dataclass(slots=True)
class PortalRecord:
    """The outcomes of a node for one chain.

    Median and weighted latency are rounded to 5 decimals. A field named `…_until` is the time at
    which the fields above it expire. `flag` is None if it was never set. `samples` are durations
    in ascending order.
    """

    successes: int = 0
    failures: int = 0
    # Latencies as of the last success. `p90` is None before the first success.
    median: float = 0.0
    p90: float | None = None
    weighted: float = 0.0
    counts_until: int = 0
    samples: list[float] = field(default_factory=list)
    samples_until: int = 0
    flag: bool | None = None
    flag_until: int = 0

    def has_recent_outcome(self, now: int) -> bool:
        return now < self.counts_until

    def is_flagged(self, now: int) -> bool:
        """Return whether the failure flag is set and has not expired."""
        return self.flag is True and now < self.flag_until

    def record_success(self, duration: float, now: int, params: PortalParameters) -> None:
        """Count a success, and compute the latencies again."""
        is_first_outcome = not self.has_recent_outcome(now)
        self._add_counts(now, params, successes=1)
        self._reset_expired_samples(now, params)
        insort(self.samples, duration)
        if len(self.samples) > params.max_samples:
            self.samples = self.samples[::2]
        median_latency = compute_quantile(self.samples, 0.5)
        p90 = compute_quantile(self.samples, 0.9)
        if is_first_outcome:
            median_latency = duration
        weighted_latency = median_latency
        if self.successes + self.failures > params.p90_min_results:
            weighted_latency += params.p90_weight * p90
        self.median = round_to_five_decimals(median_latency)
        self.weighted = round_to_five_decimals(weighted_latency)
        self.p90 = p90

    def record_failure(self, now: int, params: PortalParameters) -> None:
        """Count a failure.

        The latencies stay those of the last success.
        """
        self._add_counts(now, params, failures=1)
        self._reset_expired_samples(now, params)

    def set_failure_flag(self, until: int, *, flag: bool) -> None:
        """Set or clear the failure flag, with a new expiry time."""
        self.flag, self.flag_until = flag, until

    def compute_stats(self, node: Address, now: int, params: PortalParameters) -> NodeStats:
        """Compute the statistics that determine the node's rank."""
        is_failing = self.is_flagged(now)
        if not self.has_recent_outcome(now):
            return NodeStats(node, 0, 1.0, 0.0, 0.0, is_failing)
        attempts = self.successes + self.failures
        if self.successes == 0:
            success_rate = float(params.zero_success_rate)
            return NodeStats(node, attempts, success_rate, 0.0, 0.0, is_failing)
        success_rate = self.successes / attempts
        return NodeStats(
            node, attempts, success_rate, self.median, self.weighted, failing=False, p90=self.p90
        )

    def update_failure_flag(self, now: int, params: PortalParameters) -> None:
        """Set or clear the node's failure flag according to its recent outcomes.

        See docs/explanation/pocket.md#portal-api.
        """
        if not self.has_recent_outcome(now):
            return
        flagged = self.is_flagged(now)
        if self.successes and flagged:
            self.set_failure_flag(now + params.cleared_ttl_ms, flag=False)
        has_failed = self.successes == 0 and params.zero_success_rate == 0
        if has_failed and not flagged and self.failures >= params.shelve_failures:
            self.set_failure_flag(now + params.flag_ttl_ms, flag=True)

    def _add_counts(
        self, now: int, params: PortalParameters, successes: int = 0, failures: int = 0
    ) -> None:
        if not self.has_recent_outcome(now):
            self.successes = self.failures = 0
            self.median = self.weighted = 0.0
            self.p90 = None
        self.successes += successes
        self.failures += failures
        self.counts_until = now + params.counts_ttl_ms

    def _reset_expired_samples(self, now: int, params: PortalParameters) -> None:
        if now >= self.samples_until:
            # A failure also starts a new list of samples, which expires at its own time.
            self.samples = []
            self.samples_until = now + params.samples_ttl_ms


class PortalMemory:
    """The `ChainMemory` of the profile `portal_api_head`, with the same state as portal-api.

    A value that was written at time t with a time to live is valid while now < t + ttl. Times are
    whole milliseconds, latencies seconds (docs/explanation/pocket.md#portal-api). Only this class
    writes `records`.
    """

    def __init__(self, params: PortalParameters) -> None:
        self.records: dict[Address, PortalRecord] = {}
        self._params = params
        # Nodes whose flag an evaluation might change. No other node needs to be evaluated.
        self._suspect_nodes: set[Address] = set()

    def record_success(self, node: Address, latency: float, now: int) -> None:
        record = self._get_record(node)
        record.record_success(latency, now, self._params)
        self._add_if_suspect(node, record, now)

    def record_failure(self, node: Address, now: int) -> None:
        record = self._get_record(node)
        record.record_failure(now, self._params)
        self._add_if_suspect(node, record, now)

    def record_passed_health_check(self, node: Address, now: int) -> None:
        """Clear the failure flag, as the sync check of portal-api does."""
        self.set_failure_flag(node, now + self._params.cleared_ttl_ms, flag=False)

    def set_failure_flag(self, node: Address, until: int, *, flag: bool) -> None:
        """Set or clear a node's failure flag until a time in milliseconds."""
        self._get_record(node).set_failure_flag(until, flag=flag)
        if flag:
            self._suspect_nodes.add(node)

    def reset_node(self, node: Address) -> None:
        self.records.pop(node, None)
        self._suspect_nodes.discard(node)

    def compute_stats(self, node: Address, now: int) -> NodeStats:
        record = self.records.get(node)
        return (record or _EMPTY_RECORD).compute_stats(node, now, self._params)

    def update_failure_flags(self, nodes: Container[Address], now: int) -> None:
        """Update the failure flags of these nodes.

        The cost grows only with the failing nodes.
        """
        for node in sorted(self._suspect_nodes):
            record = self.records[node]
            if node in nodes:
                record.update_failure_flag(now, self._params)
            if not self._is_suspect(record, now):
                self._suspect_nodes.discard(node)

    def _get_record(self, node: Address) -> PortalRecord:
        if node not in self.records:
            self.records[node] = PortalRecord()
        return self.records[node]

    def _add_if_suspect(self, node: Address, record: PortalRecord, now: int) -> None:
        if self._is_suspect(record, now):
            self._suspect_nodes.add(node)

    def _is_suspect(self, record: PortalRecord, now: int) -> bool:
        """Return whether a node's flag may change, now or when a value expires."""
        if not record.has_recent_outcome(now):
            return False
        if record.successes:
            return record.is_flagged(now)
        return record.failures >= self._params.shelve_failures


_EMPTY_RECORD = PortalRecord()


# Latency that is recorded for a failure.
_NO_LATENCY = -1.0


class OutcomeWindow:
    """The outcomes of one node, oldest first, with the latency of each success in seconds.

    `out_until` is the time, in milliseconds, until which the node gets no tickets.
    """

    __slots__ = ("_cached_stats", "_outcomes", "_sorted_latencies", "out_until")

    def __init__(self) -> None:
        self.out_until = 0
        self._outcomes: deque[tuple[int, float]] = deque()
        # Latencies of all outcomes, in ascending order.
        self._sorted_latencies: list[float] = []
        # Statistics over all outcomes, or None if they must be computed again.
        self._cached_stats: NodeStats | None = None

    def add_outcome(self, outcome_ms: int, latency: float | None, window: int) -> None:
        """Add an outcome and remove expired ones.

        `latency` is None for a failure.
        """
        outcomes = self._outcomes
        while outcomes and outcomes[0][0] <= outcome_ms - window:
            _, dropped_latency = outcomes.popleft()
            if dropped_latency != _NO_LATENCY:
                del self._sorted_latencies[bisect_left(self._sorted_latencies, dropped_latency)]
        insert_index = len(outcomes)
        while insert_index and outcomes[insert_index - 1][0] > outcome_ms:
            insert_index -= 1
        outcomes.insert(insert_index, (outcome_ms, _NO_LATENCY if latency is None else latency))
        if latency is not None:
            insort(self._sorted_latencies, latency)
        self._cached_stats = None

    def compute_stats(self, node: Address, now: int, params: ArticleParameters) -> NodeStats:
        """Compute the statistics of the outcomes in the time (now - window, now]."""
        outcomes = self._outcomes
        if not outcomes:
            node_stats = NodeStats(node, 0, 1.0, 0.0, 0.0, failing=False)
        elif outcomes[0][0] + params.window_ms > now >= outcomes[-1][0]:
            if self._cached_stats is None:
                self._cached_stats = _build_stats(
                    node, len(outcomes), self._sorted_latencies, params
                )
            node_stats = self._cached_stats
        else:
            counted_latencies = [
                latency
                for outcome_ms, latency in outcomes
                if outcome_ms <= now < outcome_ms + params.window_ms
            ]
            latencies = sorted(latency for latency in counted_latencies if latency != _NO_LATENCY)
            node_stats = _build_stats(node, len(counted_latencies), latencies, params)
        if now < self.out_until:
            return node_stats._replace(failing=True, out_until_ms=self.out_until)
        return node_stats


class ArticleMemory:
    """The `ChainMemory` of the profile `article`, with the outcomes of the last five minutes.

    See docs/explanation/pocket.md#the-article.
    """

    def __init__(self, params: ArticleParameters) -> None:
        self._params = params
        self._windows: dict[Address, OutcomeWindow] = {}

    def record_success(self, node: Address, latency: float, now: int) -> None:
        self._get_window(node).add_outcome(now, latency, self._params.window_ms)

    def record_failure(self, node: Address, now: int) -> None:
        """Record a failure, which starts or extends the time in which the node gets no tickets."""
        window = self._get_window(node)
        params = self._params
        window.add_outcome(now, None, params.window_ms)
        extended_until = max(window.out_until, now) + params.out_ms_per_failure
        # A late outcome never shortens the exclusion that a newer outcome caused.
        window.out_until = max(window.out_until, min(now + params.out_cap_ms, extended_until))

    def record_passed_health_check(self, node: Address, now: int) -> None:
        window = self._windows.get(node)
        if window is not None and self._params.health_clears:
            window.out_until = min(window.out_until, now)

    def reset_node(self, node: Address) -> None:
        self._windows.pop(node, None)

    def compute_stats(self, node: Address, now: int) -> NodeStats:
        window = self._windows.get(node)
        if window is None:
            return NodeStats(node, 0, 1.0, 0.0, 0.0, failing=False)
        return window.compute_stats(node, now, self._params)

    def update_failure_flags(self, nodes: Container[Address], now: int) -> None:
        """Do nothing, because this profile has no flags.

        It counts failures when they happen.
        """

    def _get_window(self, node: Address) -> OutcomeWindow:
        if node not in self._windows:
            self._windows[node] = OutcomeWindow()
        return self._windows[node]


def _build_stats(
    node: Address, attempts: int, latencies: Sequence[float], params: ArticleParameters
) -> NodeStats:
    """Build the statistics of `attempts` outcomes from the sorted latencies of successes."""
    if not attempts:
        return NodeStats(node, 0, 1.0, 0.0, 0.0, failing=False)
    if not latencies:
        return NodeStats(node, attempts, 0.0, 0.0, 0.0, failing=False)
    median = compute_quantile(latencies, 0.5)
    p90 = compute_quantile(latencies, 0.9)
    weighted_latency = median
    if attempts > params.p90_min_results:
        weighted_latency += params.p90_weight * p90
    return NodeStats(
        node,
        attempts,
        len(latencies) / attempts,
        round_to_five_decimals(median),
        round_to_five_decimals(weighted_latency),
        failing=False,
        p90=p90,
    )


_NONE_LEFT_OUT: Mapping[Address, str] = MappingProxyType({})


def create_chain_memory(params: Parameters) -> ChainMemory:
    """Create an empty `ChainMemory` for the profile that these parameters belong to."""
    if isinstance(params, ArticleParameters):
        return ArticleMemory(params)
    if isinstance(params, PortalParameters):
        return PortalMemory(params)
    raise TypeError(
        f"no profile of Pocket's selector has parameters of type {type(params).__name__}"
    )


class NodeSelector:
    """The nodes of each chain as one gateway sees them.

    Times are whole milliseconds, all from the same clock. Outcomes count in the order in which
    they are recorded. Memory grows with the numbers of nodes and chains, and of outcomes in one
    window.
    """

    def __init__(self, params: Parameters) -> None:
        self.params = params
        self.chains: dict[str, ChainMemory] = {}

    def record_outcome(self, outcome: RelayOutcome) -> None:
        """Record the outcome of a relay, if it is a success or failure of the node."""
        blame = BLAME_BY_KIND[outcome.kind]
        if blame is Blame.SUCCESS:
            latency = outcome.latency_ms / 1000
            self._get_chain_memory(outcome.chain).record_success(
                outcome.node, latency, outcome.t_ms
            )
        elif blame is Blame.FAILURE:
            self._get_chain_memory(outcome.chain).record_failure(outcome.node, outcome.t_ms)

    def record_passed_health_check(self, node: Address, chain: str, t_ms: int) -> None:
        """Record that the node passed a health check at `t_ms`."""
        self._get_chain_memory(chain).record_passed_health_check(node, t_ms)

    def reset_node(self, node: Address) -> None:
        """Clear the history of a node on all chains."""
        for memory in self.chains.values():
            memory.reset_node(node)

    def rank_nodes(
        self,
        chain: str,
        candidates: Iterable[Address],
        now_ms: int,
        omitted_nodes: Mapping[Address, str] = _NONE_LEFT_OUT,
    ) -> Ranking:
        """Rank the candidates and compute their tickets, without changing anything.

        Args:
            chain: the chain whose outcomes count.
            candidates: the candidates without duplicates, in the order that breaks ties.
            now_ms: the time of the ranking; outcomes that are later, or older than a window, do
                not count.
            omitted_nodes: candidates to leave out, each with the reason.
        """
        memory = self.chains.get(chain) or create_chain_memory(self.params)
        all_stats = [
            memory.compute_stats(node, now_ms) for node in candidates if node not in omitted_nodes
        ]
        return rank_nodes(all_stats, self.params, omitted_nodes)

    def update_failure_flags(self, chain: str, nodes: Container[Address], now_ms: int) -> None:
        """Update the failure flags of these nodes.

        Only `portal_api_head` has such flags.
        """
        self._get_chain_memory(chain).update_failure_flags(nodes, now_ms)

    def _get_chain_memory(self, name: str) -> ChainMemory:
        if name not in self.chains:
            self.chains[name] = create_chain_memory(self.params)
        return self.chains[name]
