"""The memory of the profile `article`: outcomes of the last five minutes, and who is out.

See docs/explanation/pocket.md#the-article.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Container, Sequence

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import quantile, to_five_places
from oracle.systems.pocket.node_stats import NodeStats
from oracle.systems.pocket.parameters import ArticleParameters

# What stands for the latency of a failure.
_NONE = -1.0


class OutcomeWindow:
    """One node's outcomes, oldest first, each with its latency in seconds; failures have none.

    `out_until`: when the node is back, in milliseconds.
    """

    __slots__ = ("_ascending", "_known", "_outcomes", "out_until")

    def __init__(self) -> None:
        self.out_until = 0
        self._outcomes: deque[tuple[int, float]] = deque()
        # The latencies among them, sorted.
        self._ascending: list[float] = []
        # What all of them together say; None: to be computed.
        self._known: NodeStats | None = None

    def add(self, at: int, latency: float | None, window: int) -> None:
        """Take an outcome in, and drop what had gone by its time; `latency` None: a failure."""
        outcomes = self._outcomes
        while outcomes and outcomes[0][0] <= at - window:
            _, gone = outcomes.popleft()
            if gone != _NONE:
                del self._ascending[bisect_left(self._ascending, gone)]
        place = len(outcomes)
        while place and outcomes[place - 1][0] > at:
            place -= 1
        outcomes.insert(place, (at, _NONE if latency is None else latency))
        if latency is not None:
            insort(self._ascending, latency)
        self._known = None

    def stats(self, node: Address, now: int, params: ArticleParameters) -> NodeStats:
        """Return what the outcomes in (now - window, now] say."""
        outcomes = self._outcomes
        if not outcomes:
            said = NodeStats(node, 0, 1.0, 0.0, 0.0, failing=False)
        elif outcomes[0][0] + params.window_ms > now >= outcomes[-1][0]:
            if self._known is None:
                self._known = _stats_from_outcomes(node, len(outcomes), self._ascending, params)
            said = self._known
        else:
            counted = [one for at, one in outcomes if at <= now < at + params.window_ms]
            latencies = sorted(one for one in counted if one != _NONE)
            said = _stats_from_outcomes(node, len(counted), latencies, params)
        if now < self.out_until:
            return said._replace(failing=True, out_until_ms=self.out_until)
        return said


class ArticleMemory:
    """Satisfies `ChainMemory`."""

    def __init__(self, params: ArticleParameters) -> None:
        self._params = params
        self._windows: dict[Address, OutcomeWindow] = {}

    def succeeded(self, node: Address, latency: float, now: int) -> None:
        self._window(node).add(now, latency, self._params.window_ms)

    def failed(self, node: Address, now: int) -> None:
        """Count a failure: the node is out for a while, or for a while longer."""
        window, params = self._window(node), self._params
        window.add(now, None, params.window_ms)
        longer = max(window.out_until, now) + params.out_ms_per_failure
        # Told late, it takes back nothing of what a later one has brought.
        window.out_until = max(window.out_until, min(now + params.out_cap_ms, longer))

    def health_passed(self, node: Address, now: int) -> None:
        window = self._windows.get(node)
        if window is not None and self._params.health_clears:
            window.out_until = min(window.out_until, now)

    def forget(self, node: Address) -> None:
        self._windows.pop(node, None)

    def stats(self, node: Address, now: int) -> NodeStats:
        window = self._windows.get(node)
        if window is None:
            return NodeStats(node, 0, 1.0, 0.0, 0.0, failing=False)
        return window.stats(node, now, self._params)

    def look(self, among: Container[Address], now: int) -> None:
        """Being looked at leaves nothing behind: failures count when they happen."""

    def _window(self, node: Address) -> OutcomeWindow:
        if node not in self._windows:
            self._windows[node] = OutcomeWindow()
        return self._windows[node]


def _stats_from_outcomes(
    node: Address, attempts: int, latencies: Sequence[float], params: ArticleParameters
) -> NodeStats:
    """Make statistics of that many outcomes, of which the successes took `latencies`, sorted."""
    if not attempts:
        return NodeStats(node, 0, 1.0, 0.0, 0.0, failing=False)
    if not latencies:
        return NodeStats(node, attempts, 0.0, 0.0, 0.0, failing=False)
    median, p90 = quantile(latencies, 0.5), quantile(latencies, 0.9)
    weighted = median
    if attempts > params.p90_min_results:
        weighted += params.p90_weight * p90
    return NodeStats(
        node,
        attempts,
        len(latencies) / attempts,
        to_five_places(median),
        to_five_places(weighted),
        failing=False,
        p90=p90,
    )
