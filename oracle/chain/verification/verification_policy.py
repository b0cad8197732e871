"""How far windows are verified, as set in section `[verify]` (docs/explanation/verification.md)."""

from dataclasses import dataclass

from oracle.domain.coverage import Level


@dataclass(frozen=True, slots=True)
class VerificationPolicy:
    """The highest level to verify up to, for non-final blocks (`head`) and final ones (`history`).

    Without `receipts` no block is ever proven. With `every_header` history is read like the head:
    all headers linked, and logs by block hash; that takes about two requests per block.
    """

    head: Level = Level.PROVEN
    history: Level = Level.PROVEN
    receipts: bool = True
    every_header: bool = False

    def top(self, *, is_history: bool) -> Level:
        """Return the highest level to verify up to."""
        top = self.history if is_history else self.head
        return top if self.receipts else min(top, Level.BLOOMED)


@dataclass(frozen=True, slots=True)
class LevelShortfall:
    """History cannot reach the configured level, because the chain lacks `refuted_features`.

    `reachable_level` is the level that can be configured instead. Below `unproven_below`, a block
    relies on the endpoint that gave it.
    """

    wanted: Level
    reached: Level
    refuted: tuple[str, ...]
    unproven_below: Level


# Only L0 and L1, the minimum that is always checked.
LEAST = VerificationPolicy(head=Level.SEAMED, history=Level.SEAMED, receipts=False)
