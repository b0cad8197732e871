"""The parameters of a selection service, and the limits of its memory."""

from dataclasses import dataclass

from oracle.systems.pocket.parameters import ARTICLE, ArticleParameters, Parameters

# With `portal_api_head`, outcomes count until this long after the last one
# (docs/explanation/pocket.md#constants).
_PORTAL_WINDOW_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRules:
    """The rules of a gateway.

    Times are in milliseconds.

    Raises:
        ValueError: a number is out of range; the message names the field.
    """

    params: Parameters = ARTICLE
    # Time for which a ranking is reused, in milliseconds. If it is 0, each selection computes a
    # new ranking.
    ranking_ms: int = 100
    # Maximum time by which an outcome may be ahead of the local clock.
    max_ahead_ms: int = 5_000
    # Time for which the id of an outcome is remembered, so that the outcome counts only once.
    id_ms: int = 600_000
    # Time for which a node is excluded from a session that has ended for it.
    session_exclusion_ms: int = 3_600_000
    # Length of an epoch. All draws of an epoch use the same seed.
    epoch_ms: int = 600_000
    # Maximum numbers of outcomes, nodes, chains, ids and rankings that are kept in memory.
    max_outcomes: int = 2_000_000
    max_nodes: int = 100_000
    max_chains: int = 1_000
    max_ids: int = 2_000_000
    max_rankings: int = 1_000

    def __post_init__(self) -> None:
        may_be_zero = {"ranking_ms", "max_ahead_ms"}
        for name in self.__slots__:
            rule_value = getattr(self, name)
            minimum = 0 if name in may_be_zero else 1
            if isinstance(rule_value, int) and rule_value < minimum:
                raise ValueError(f"{name}: must be at least {minimum}")

    @property
    def window_ms(self) -> int:
        """The age in milliseconds above which an outcome no longer counts."""
        params = self.params
        return params.window_ms if isinstance(params, ArticleParameters) else _PORTAL_WINDOW_MS

    @property
    def retention_ms(self) -> int:
        """The maximum age in milliseconds of outcomes to restore after a restart."""
        params = self.params
        max_exclusion_ms = (
            params.out_cap_ms if isinstance(params, ArticleParameters) else _PORTAL_WINDOW_MS
        )
        return max(self.window_ms, self.id_ms, max_exclusion_ms)
