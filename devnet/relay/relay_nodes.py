"""The nodes of a generated relay network, and the dishonest acts of the relay."""

from dataclasses import dataclass

_STAKE = 100_000 * 10**18


@dataclass(frozen=True, slots=True)
class RelayNode:
    """The GPU and the behaviour of a node.

    `mean_seconds` is its mean time for a task, and `vram` its video memory in GB. The chances are
    probabilities per task. `silent_chance` is the chance that the node never answers,
    `wrong_chance` that its result in a group differs, `error_chance` that it reports an error, and
    `missed_upload_chance` that it never uploads an accepted result.
    """

    name: str
    mean_seconds: float
    gpu: str = "NVIDIA RTX 4090"
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
    RelayNode("turtle", 30.0, gpu="NVIDIA GTX 1070", vram=8),
    RelayNode("moody", 14.0, silent_chance=0.2),
    RelayNode("forger", 11.0, wrong_chance=0.3),
    RelayNode("hopeless", 45.0, silent_chance=0.45),
)


@dataclass(frozen=True, slots=True)
class RelayLies:
    """Dishonest acts of a relay, after which its books and its rows disagree.

    Groups, timeouts and ended tasks are counted from 1; 0 means that the act never happens. In the
    group `swapped_group`, the first two members get each other's score. In the group
    `forgotten_zero`, a member that timed out gets no score of 0. The timeout `free_timeout` has no
    penalty. The node of the ended task `early_kick` is kicked out although no kickout is due.
    `restart_at` is the time, in relay seconds, at which the relay loses its pools.
    """

    swapped_group: int = 0
    forgotten_zero: int = 0
    free_timeout: int = 0
    early_kick: int = 0
    restart_at: float = 0.0


HONEST = RelayLies()
