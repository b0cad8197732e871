"""What a selection service goes by beside the profile, and how much it remembers."""

from dataclasses import dataclass

from oracle.systems.pocket.parameters import ARTICLE, ArticleParameters, Parameters

# What `portal_api_head` counts by, from the last outcome (docs/explanation/pocket.md#constants).
_PORTAL_MS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRules:
    """Times are in milliseconds.

    Raises:
        ValueError: a number that means nothing; it is named.
    """

    params: Parameters = ARTICLE
    # A ranking stands for so long; 0: each selection ranks anew.
    ranking_ms: int = 100
    # An outcome may be so far ahead of our clock.
    ahead_ms: int = 5_000
    # For so long an outcome's id is known again.
    id_ms: int = 600_000
    # A node that a session is over for gets nothing of it for so long.
    session_out_ms: int = 3_600_000
    # The draws of so long have one seed.
    epoch_ms: int = 600_000
    # Outcomes, nodes, chains, ids and rankings that are remembered.
    max_outcomes: int = 2_000_000
    max_nodes: int = 100_000
    max_chains: int = 1_000
    max_ids: int = 2_000_000
    max_rankings: int = 1_000

    def __post_init__(self) -> None:
        may_be_zero = {"ranking_ms", "ahead_ms"}
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, int) and value < (name not in may_be_zero):
                raise ValueError(f"{name}: must be above 0")

    @property
    def window_ms(self) -> int:
        """What is older says nothing any more."""
        params = self.params
        return params.window_ms if isinstance(params, ArticleParameters) else _PORTAL_MS

    @property
    def kept_ms(self) -> int:
        """For so long an outcome has to be known again after a restart."""
        params = self.params
        out = params.out_cap_ms if isinstance(params, ArticleParameters) else _PORTAL_MS
        return max(self.window_ms, self.id_ms, out)
