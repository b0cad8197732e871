"""Blocks that are not taken in: what is said of them cannot be true, and nobody proves more.

A refusal stands in the database until it is explained: by an endpoint that proves the block, by a
second one that says the same, or by an operator. Whoever tries again meanwhile hears it again.
"""

from typing import Self

import msgspec

from oracle.domain.ids import Hash
from oracle.errors import TransientError

# The names of what is remembered of the chain: the refusal, and what an operator has accepted.
REFUSAL = "refusal"
ACCEPTED = "accepted "
# Two endpoints show two blocks of one height; every other check is a `HeaderFeature`.
BLOCK_HASH = "block_hash"
# What the chain's headers are worth is not decided, because a provider does not answer.
CALIBRATION = "calibration"


class BlockRefusal(msgspec.Struct, frozen=True):
    """The block, which check of it failed, and what to say of it."""

    number: int
    block_hash: Hash
    check: str
    words: str

    def to_json(self) -> str:
        """Return what `from_json` reads."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the refusal that `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

    @property
    def acceptance(self) -> str:
        """The name under which an operator's acceptance of this block stands."""
        return f"{ACCEPTED}{self.check} {self.block_hash}"


class RefusalError(TransientError):
    """A block is refused: nobody gives it as its header, or as another endpoint, says it is."""

    def __init__(self, refusal: BlockRefusal) -> None:
        self.refusal = refusal
        super().__init__(
            f"{refusal.words}. Nothing of it is taken in: name another endpoint in [chain] "
            "endpoints, or take out the one that is wrong; `qos-oracle resync refusal` tells more"
        )
