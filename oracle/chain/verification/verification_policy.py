"""How far a window is proven, as section `[verify]` says (docs/explanation/verification.md)."""

from dataclasses import dataclass

from oracle.domain.coverage import Level


@dataclass(frozen=True, slots=True)
class VerificationPolicy:
    """The highest level that is tried, of what may still change and of what is final.

    Without `receipts` nothing is ever proven. With `every_header` history is read as the head is:
    all headers linked, logs by the hash of their block; it costs about two requests per block.
    """

    head: Level = Level.PROVEN
    history: Level = Level.PROVEN
    receipts: bool = True
    every_header: bool = False

    def top(self, *, is_history: bool) -> Level:
        """Return the highest level that is tried."""
        top = self.history if is_history else self.head
        return top if self.receipts else min(top, Level.BLOOMED)


@dataclass(frozen=True, slots=True)
class LevelShortfall:
    """History that cannot reach the level asked for: the chain was found not to have `refuted`.

    `reached` is the level that can be asked for instead. Below `unproven_below` a block rests on
    the word of the endpoint that gave it.
    """

    wanted: Level
    reached: Level
    refuted: tuple[str, ...]
    unproven_below: Level


# L0 and L1 alone: what everything is compared with.
LEAST = VerificationPolicy(head=Level.SEAMED, history=Level.SEAMED, receipts=False)
