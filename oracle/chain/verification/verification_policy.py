"""The levels to which windows are verified, from the settings section `[verify]`.

See docs/explanation/verification.md.
"""

from dataclasses import dataclass

from oracle.domain.coverage import VerificationLevel


@dataclass(frozen=True, slots=True)
class VerificationPolicy:
    """The levels to which head blocks and final blocks are verified.

    `head` is the level of non-final blocks, `history` of final blocks. If `receipts` is false, no
    block is ever proven. With `every_header`, history is read in the same way as the head, with
    all headers and with logs by block hash. This takes about two requests per block.
    """

    head: VerificationLevel = VerificationLevel.PROVEN
    history: VerificationLevel = VerificationLevel.PROVEN
    receipts: bool = True
    every_header: bool = False

    def get_max_level(self, *, is_history: bool) -> VerificationLevel:
        """Return the level to which blocks are verified.

        With `is_history`, these are final blocks, otherwise newer blocks.
        """
        level = self.history if is_history else self.head
        return level if self.receipts else min(level, VerificationLevel.BLOOMED)


@dataclass(frozen=True, slots=True)
class LevelShortfall:
    """The configured level cannot be reached, because the chain lacks header features.

    These are `unsupported_features`. `reachable_level` is the level that can be configured
    instead. A block whose level is below `unproven_below` is only as reliable as the endpoint that
    returned it.
    """

    wanted_level: VerificationLevel
    reachable_level: VerificationLevel
    unsupported_features: tuple[str, ...]
    unproven_below: VerificationLevel
