"""Pocket's node selector in process: outcomes go in, tickets come out.

Nothing in it has a clock, a random number or a chain: the same calls give the same answers. The
daemon, `select`, `backtest` and a gateway all use it. See docs/explanation/pocket.md#the-selector.
"""

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

from oracle.domain.ids import Address
from oracle.systems.pocket.article_memory import ArticleMemory
from oracle.systems.pocket.node_stats import ChainMemory
from oracle.systems.pocket.parameters import ArticleParameters, Parameters, PortalParameters
from oracle.systems.pocket.portal_memory import PortalMemory
from oracle.systems.pocket.ranking import Ranking, rank
from oracle.systems.pocket.relay_outcomes import BLAME, Blame, RelayOutcome

_NOBODY: Mapping[Address, str] = MappingProxyType({})


def memory_of(params: Parameters) -> ChainMemory:
    """Return an empty memory of one chain, as the profile remembers."""
    if isinstance(params, ArticleParameters):
        return ArticleMemory(params)
    if isinstance(params, PortalParameters):
        return PortalMemory(params)
    raise TypeError(f"no profile: {type(params).__name__}")


class NodeSelector:
    """One gateway's view of its nodes, chain by chain.

    Times are whole milliseconds of any one clock. Outcomes count in the order in which they are
    taken. Its memory grows with nodes, chains and the outcomes of one window.
    """

    def __init__(self, params: Parameters) -> None:
        self.params = params
        self.chains: dict[str, ChainMemory] = {}

    def take(self, outcome: RelayOutcome) -> None:
        """Count how a relay ended, where that says anything of its node."""
        blame = BLAME[outcome.kind]
        if blame is Blame.SUCCESS:
            latency = outcome.latency_ms / 1000
            self._chain(outcome.chain).succeeded(outcome.node, latency, outcome.t_ms)
        elif blame is Blame.FAILURE:
            self._chain(outcome.chain).failed(outcome.node, outcome.t_ms)

    def health_passed(self, node: Address, chain: str, t_ms: int) -> None:
        """A check has found the node well at `t_ms`."""
        self._chain(chain).health_passed(node, t_ms)

    def forget(self, node: Address) -> None:
        """Clear a node's history in every chain."""
        for memory in self.chains.values():
            memory.forget(node)

    def rank(
        self,
        chain: str,
        candidates: Iterable[Address],
        now_ms: int,
        left_out: Mapping[Address, str] = _NOBODY,
    ) -> Ranking:
        """Return the candidates with their tickets; this is reading, and changes nothing.

        Args:
            chain: whose outcomes count.
            candidates: in the order that breaks ties; nobody twice.
            now_ms: what lies a window back counts no more, nor what is yet to come.
            left_out: candidates that a check does not let through, each with the reason.
        """
        memory = self.chains.get(chain) or memory_of(self.params)
        every = [memory.stats(node, now_ms) for node in candidates if node not in left_out]
        return rank(every, self.params, left_out)

    def looked(self, chain: str, among: Container[Address], now_ms: int) -> None:
        """Let an evaluation of these nodes have happened: `portal_api_head` moves flags then."""
        self._chain(chain).look(among, now_ms)

    def _chain(self, name: str) -> ChainMemory:
        if name not in self.chains:
            self.chains[name] = memory_of(self.params)
        return self.chains[name]
