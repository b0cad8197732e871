"""Verification depth of windows, set in section `[verify]` (docs/explanation/verification.md)."""

from dataclasses import dataclass

from oracle.domain.coverage import VerificationLevel


@dataclass(frozen=True, slots=True)
class VerificationPolicy:
    """The highest level to verify up to, for non-final blocks (`head`) and final ones (`history`).

    Without `receipts`, no block is ever proven. With `every_header`, history is read like the
    head: with all headers, and with logs by block hash. This takes about two requests per block.
    """

    head: VerificationLevel = VerificationLevel.PROVEN
    history: VerificationLevel = VerificationLevel.PROVEN
    receipts: bool = True
    every_header: bool = False

    def get_max_level(self, *, is_history: bool) -> VerificationLevel:
        """Return the highest level up to which history, or else new blocks, are verified."""
        level = self.history if is_history else self.head
        return level if self.receipts else min(level, VerificationLevel.BLOOMED)


@dataclass(frozen=True, slots=True)
class LevelShortfall:
    """Why history cannot reach the configured level: the chain lacks the `unsupported_features`.

    `reachable_level` is the level that can be configured instead. A block whose level is below
    `unproven_below` is only as reliable as the endpoint that returned it.
    """

    wanted_level: VerificationLevel
    reachable_level: VerificationLevel
    unsupported_features: tuple[str, ...]
    unproven_below: VerificationLevel
