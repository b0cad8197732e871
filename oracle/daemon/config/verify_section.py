"""The section `[verify]`: how thoroughly blocks are verified, and at what cost."""

from typing import Literal

from pydantic import Field

from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.daemon.config.sections import Section
from oracle.domain.coverage import Level

Rung = Literal["seamed", "pinned", "bloomed", "proven"]


class VerifySection(Section):
    # The verification level of blocks that may still change: `seamed`, `pinned`, `bloomed`,
    # `proven`; limited by what the chain supports.
    head: Rung = "proven"
    # The verification level of final blocks: every header is read, receipts only where a bloom
    # filter does not exclude the contracts; `seamed` reads few headers and proves nothing.
    history: Rung = "proven"
    # Verify with receipts; if off, no block gets above `bloomed`.
    receipts: bool = True
    # Read history in the same way as the head: every header, logs by block hash.
    every_header: bool = False
    # The share of old windows that a second endpoint audits again, after it has audited all.
    audit_share: float = Field(default=0.01, ge=0, le=1, allow_inf_nan=False)


def policy_of(told: VerifySection) -> VerificationPolicy:
    """Return the verification policy of the chain source."""
    return VerificationPolicy(
        head=Level[told.head.upper()],
        history=Level[told.history.upper()],
        receipts=told.receipts,
        every_header=told.every_header,
    )


def one_of(told: VerifySection) -> int:
    """Return the number of new final blocks for each new audit of an old window."""
    return round(1 / told.audit_share) if told.audit_share else _NEVER


# More blocks than any chain will have.
_NEVER = 2**63
