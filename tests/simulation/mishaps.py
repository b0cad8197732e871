"""Draws mishaps from one seed; `calm` ends them."""

from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of one world.

    `noise` scales the chance of every mishap; 0 means none. `replicas` share one database and a
    lease. `endpoints` each have their own view and pool. `rounds` is the number of wanted pushes,
    one after the other, in addition to the other calls. `fee_cap` and `bump_blocks` are as in
    `[limits]`, in gwei and blocks; `call_cap` and `hour_cap` limit a transaction and an hour, in
    thousandths of an ether. `failing` is the percentage of transactions that revert, possibly not
    in another block. `later_fee` is the base fee that the chain tends to from block 60 on, in
    gwei. `asked_tip` is the tip that builders require, in gwei, whatever endpoints report about
    earlier blocks. `attic` is the chance that a builder uses a transaction that all pools dropped,
    and `forgetful` the chance that they drop all. `operator`: whether an operator changes calls,
    or pauses the account, now and then. `lies` is the chance that the first endpoint answers a
    request falsely. `batch_size` is the number of calls processed together.
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
    lies: float = 0.0
    rounds: int = 25
    batch_size: int = 1


@dataclass
class Weather:
    """The random numbers, and the mishaps that they decide."""

    dice: Random
    noise: float
    passed: dict[str, int] = field(default_factory=dict)

    def strikes(self, what: str, chance: float) -> bool:
        """Decide whether a mishap happens, and count it if it does."""
        # A number is drawn in any case, so that the same seed gives the same story for longer.
        happens = self.dice.random() < chance * self.noise
        if happens:
            self.passed[what] = self.passed.get(what, 0) + 1
        return happens

    def calm(self) -> None:
        """End all mishaps."""
        self.noise = 0.0
