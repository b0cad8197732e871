"""Blocks that are refused because answers about them contradict each other or their header.

No proof decides which answer is right. A refusal is stored until it is resolved: by an endpoint
that proves the block, by a second one that gives the same answer, or by an operator. Until then
every retry raises the error again.
"""

from typing import Self

import msgspec

from oracle.domain.ids import Hash
from oracle.errors import TransientError

# Fact names: the refusal, and the prefix of blocks that an operator accepted.
REFUSAL_FACT = "refusal"
ACCEPTED_PREFIX = "accepted "
# Endpoints return different blocks at one height; every other check is a `HeaderFeature`.
BLOCK_HASH_CHECK = "block_hash"
# The calibration is undecided, because a provider does not answer.
CALIBRATION_CHECK = "calibration"


class BlockRefusal(msgspec.Struct, frozen=True):
    """A block, the check that it failed, and the message to show."""

    number: int
    block_hash: Hash
    check: str
    words: str

    def to_json(self) -> str:
        """Return the refusal as JSON for `from_json`."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the refusal that `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

    @property
    def acceptance_fact_name(self) -> str:
        """The name of the fact that stores an operator's acceptance of this block."""
        return f"{ACCEPTED_PREFIX}{self.check} {self.block_hash}"


class BlockRefusedError(TransientError):
    """A block is refused: it contradicts its header, or endpoints contradict each other."""

    def __init__(self, refusal: BlockRefusal) -> None:
        self.refusal = refusal
        super().__init__(
            f"{refusal.words}. The block is not indexed; add another endpoint to [chain] "
            "endpoints, or remove the wrong one; see `qos-oracle resync refusal`"
        )
