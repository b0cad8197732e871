"""Refusals of blocks about which answers contradict each other or the block's header.

No proof shows which answer is right. A refusal is stored until an endpoint proves the block, until
a second endpoint gives the same answer, or until an operator accepts the block. Until then, every
retry raises the error again.
"""

from typing import Self

import msgspec

from oracle.domain.ids import Hash
from oracle.errors import TransientError

# Names of stored facts: the current refusal, and (with a suffix) a block that an operator
# accepted.
REFUSAL_FACT = "refusal"
ACCEPTED_PREFIX = "accepted "
# A value of `check`: endpoints return different blocks at one height.
BLOCK_HASH_CHECK = "block_hash"
# A value of `check`: calibration is undecided because a provider does not answer. Any other value
# is a `HeaderFeature`.
CALIBRATION_CHECK = "calibration"


class BlockRefusal(msgspec.Struct, frozen=True):
    """A block, the check that it failed, and the message to show."""

    number: int
    block_hash: Hash
    check: str
    reason: str

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
    """A block is refused, because it contradicts its header or endpoints disagree about it."""

    def __init__(self, refusal: BlockRefusal) -> None:
        self.refusal = refusal
        super().__init__(
            f"{refusal.reason}. The block is not indexed; add another endpoint to [chain] "
            "endpoints, or remove the wrong one; see `qos-oracle resync refusal`"
        )
