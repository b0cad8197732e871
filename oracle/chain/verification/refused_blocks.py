"""Refusals of blocks because answers contradict each other or the block's header.

No proof shows which answer is right. A refusal is stored until an endpoint proves the block, until
a second endpoint gives the same answer, or until an operator accepts the block. Until then, every
retry raises the error again.
"""

from collections.abc import Collection
from typing import Self

import msgspec

from oracle.domain.ids import Hash
from oracle.errors import TransientError

# Name of the stored fact that holds the current refusal, and prefix of the facts that name blocks
# which an operator accepted.
REFUSAL_FACT = "refusal"
ACCEPTED_PREFIX = "accepted "
# This value of `check` means that endpoints return different blocks at one height.
BLOCK_HASH_CHECK = "block_hash"
# This value of `check` means that calibration is undecided because a provider does not answer. All
# values other than these two are names of a `HeaderFeature`.
CALIBRATION_CHECK = "calibration"


class BlockRefusal(msgspec.Struct, frozen=True):
    """A refused block, the check that failed, and the message to show."""

    number: int
    block_hash: Hash
    check: str
    reason: str

    def to_json(self) -> str:
        """Return the refusal as JSON, for `from_json`."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse a refusal that `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

    @property
    def acceptance_fact_name(self) -> str:
        """The name of the fact that records an operator's acceptance of this block."""
        return f"{ACCEPTED_PREFIX}{self.check} {self.block_hash}"


class BlockRefusedError(TransientError):
    """A block was refused: it contradicts its header, or endpoints disagree about it."""

    def __init__(self, refusal: BlockRefusal, contradicting: Collection[str] = ()) -> None:
        self.refusal = refusal
        # The endpoints whose answers contradict the headers that they returned.
        self.contradicting_endpoints = frozenset(contradicting)
        super().__init__(
            f"{refusal.reason}. The block is not indexed; add another endpoint to [chain] "
            "endpoints, or remove the wrong one; see `qos-oracle resync refusal`"
        )
