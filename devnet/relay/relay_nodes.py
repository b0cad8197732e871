"""The nodes of a generated relay network, and the ways in which its relay may be dishonest."""

from dataclasses import dataclass

_STAKE = 100_000 * 10**18


@dataclass(frozen=True, slots=True)
class RelayNode:
    """One node: its GPU and its behaviour.

    `mean_seconds` is its mean time for a task. The chances are probabilities per task:
    `silent_chance` that the node never answers, `wrong_chance` that its result in a group differs,
    `error_chance` that it reports an error, and `missed_upload_chance` that it never uploads an
    accepted result.
    """

    name: str
    mean_seconds: float
    card: str = "NVIDIA RTX 4090"
    vram: int = 24
    stake: int = _STAKE
    silent_chance: float = 0.0
    wrong_chance: float = 0.0
    error_chance: float = 0.0
    missed_upload_chance: float = 0.0
    models: tuple[str, ...] = ("base:crynux-network/sdxl-turbo",)


RELAY_NODES = (
    RelayNode("swift", 5.0, stake=4 * _STAKE),
    RelayNode("steady", 9.0, stake=2 * _STAKE),
    RelayNode("average", 13.0, silent_chance=0.02),
    RelayNode("second", 12.0, error_chance=0.02),
    RelayNode("third", 16.0, missed_upload_chance=0.03),
    RelayNode("turtle", 30.0, card="NVIDIA GTX 1070", vram=8),
    RelayNode("moody", 14.0, silent_chance=0.2),
    RelayNode("forger", 11.0, wrong_chance=0.3),
    RelayNode("hopeless", 45.0, silent_chance=0.45),
)


@dataclass(frozen=True, slots=True)
class RelayLies:
    """Dishonest acts of a relay, which make its books and its rows disagree.

    Groups, timeouts and ended tasks are counted from 1; 0 means that the act never happens.
    `swapped_group`: in this group, the first two members get each other's score. `forgotten_zero`:
    a member of this group that timed out gets no score of 0. `free_timeout`: this timeout has no
    penalty. `early_kick`: the node of this ended task is kicked out although no kickout is due.
    `restart_at`: the relay's time, in seconds, at which it loses its pools.
    """

    swapped_group: int = 0
    forgotten_zero: int = 0
    free_timeout: int = 0
    early_kick: int = 0
    restart_at: float = 0.0


HONEST = RelayLies()
