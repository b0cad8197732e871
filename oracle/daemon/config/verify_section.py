"""The section `[verify]`: how sure to be that nothing is missing, and what that may cost."""

from typing import Literal

from pydantic import Field

from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.daemon.config.sections import Section
from oracle.domain.coverage import Level

Rung = Literal["seamed", "pinned", "bloomed", "proven"]


class VerifySection(Section):
    # The highest level of proof that is tried, of what may still change and of history; what the
    # chain's headers are not good for is not reached.
    head: Rung = "proven"
    history: Rung = "proven"
    # Prove by receipts; off: they are only read to see what the chain's blooms are worth.
    receipts: bool = True
    # Read every header of history too, and its logs by block hash.
    every_header: bool = False
    # The share of the windows of history that are asked about again, after all were once.
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
