"""How sure we are that we have read everything of a block: the ladder of chain.md 3.9."""

from enum import IntEnum


class Level(IntEnum):
    """What was checked about a range of blocks; each level includes those below it.

    NOTHING is for what came in before levels were kept. Level L6 of chain.md, the comparison of
    counters, is about the whole state at a block and stands by itself.
    """

    NOTHING = -1
    # L0: every log is well-formed, inside the question and in order, none twice.
    CHECKED = 0
    # L1: the range continues ours by hash, and every log is of the block that its header names.
    SEAMED = 1
    # L2: all headers link, and the logs were asked for by the hash of their block.
    PINNED = 2
    # L3: the header's bloom, of a chain whose blooms were proved, agrees with what was found.
    BLOOMED = 3
    # L4: the logs are the block's own receipts, whose root is the header's.
    PROVEN = 4
    # L5: another endpoint, asked later, says the same.
    AUDITED = 5
