"""The section `[verify]`: how sure to be that nothing is missing, and what that may cost."""

from typing import Literal

from pydantic import Field

from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.daemon.config.sections import Section
from oracle.domain.coverage import Level

Rung = Literal["seamed", "pinned", "bloomed", "proven"]


class VerifySection(Section):
    # How sure to be of blocks that may still change: `seamed`, `pinned`, `bloomed`,
    # `proven`; as far as the chain allows.
    head: Rung = "proven"
    # How sure to be of final blocks: every header is read, receipts only where a bloom does
    # not exclude our contracts; `seamed` reads few headers and proves nothing.
    history: Rung = "proven"
    # Prove by receipts; off, nothing gets above `bloomed`.
    receipts: bool = True
    # Read history as the head is read: every header, logs by block hash.
    every_header: bool = False
    # How many windows of history a second endpoint is asked about again, after it was asked
    # about all.
    audit_share: float = Field(default=0.01, ge=0, le=1, allow_inf_nan=False)


def policy_of(told: VerifySection) -> VerificationPolicy:
    """Return what the section means to the chain's room."""
    return VerificationPolicy(
        head=Level[told.head.upper()],
        history=Level[told.history.upper()],
        receipts=told.receipts,
        every_header=told.every_header,
    )


def one_of(told: VerifySection) -> int:
    """Return of how many new final blocks one has an old window asked about again."""
    return round(1 / told.audit_share) if told.audit_share else _NEVER


# More blocks than any chain will have.
_NEVER = 2**63
