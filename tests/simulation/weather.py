"""What may go wrong and how often, out of one seed; `calm` ends it."""

from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True, slots=True)
class Setting:
    """One world: `noise` scales every mishap, 0 is a perfect one.

    `replicas` share one database and a lease; `endpoints` each have a view and a pool of their
    own. `rounds`: pushes that are wanted, one after the other; kickouts come beside them.
    `fee_cap` and `bump_blocks` as in `[limits]`, in gwei and blocks; `call_cap` and `hour_cap`
    too, of a transaction and of an hour, in thousandths of an ether. `failing`: of a hundred
    transactions, so many revert, in another block perhaps not. `later_fee`: what the base fee
    tends to from block 60 on, for good, in gwei. `asked_tip`: what builders ask for, in gwei,
    whatever endpoints tell of earlier blocks. `attic`: how often a builder looks into what all
    pools forgot, and `forgetful`: how often they do. `operator`: a human meddles now and
    then. `batch_size`: so many calls go a step together.
    """

    name: str
    endpoints: int = 2
    replicas: int = 2
    finality: int = 6
    noise: float = 1.0
    bump_blocks: int = 3
    fee_cap: int = 60
    failing: int = 3
    later_fee: int = 10
    call_cap: int = 1_000
    hour_cap: int = 20_000
    asked_tip: float = 0.0
    attic: float = 0.1
    forgetful: float = 0.008
    operator: bool = True
    rounds: int = 25
    batch_size: int = 1


@dataclass
class Weather:
    """The dice, and what they are thrown for."""

    dice: Random
    noise: float
    passed: dict[str, int] = field(default_factory=dict)

    def strikes(self, what: str, chance: float) -> bool:
        """Throw the dice for one mishap; count those that happen."""
        # Thrown in any case, so that the same seed stays the same story for longer.
        happens = self.dice.random() < chance * self.noise
        if happens:
            self.passed[what] = self.passed.get(what, 0) + 1
        return happens

    def calm(self) -> None:
        """From now on nothing happens."""
        self.noise = 0.0
