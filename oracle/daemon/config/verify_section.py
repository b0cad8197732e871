"""The section `[verify]`: how thoroughly blocks are verified, and at what cost."""

from typing import Literal

from pydantic import Field

from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.daemon.config.sections import Section
from oracle.domain.coverage import VerificationLevel

LevelName = Literal["seamed", "pinned", "bloomed", "proven"]


class VerifySection(Section):
    # The verification level of blocks that may still change: `seamed`, `pinned`, `bloomed`,
    # `proven`; limited by what the chain supports.
    head: LevelName = "proven"
    # The verification level of final blocks: every header is read, receipts only where a bloom
    # filter does not exclude the contracts; `seamed` reads few headers and proves nothing.
    history: LevelName = "proven"
    # Verify with receipts; if off, no block gets above `bloomed`.
    receipts: bool = True
    # Read history in the same way as the head: every header, logs by block hash.
    every_header: bool = False
    # The share of old windows that a second endpoint audits again, after it has audited all.
    audit_share: float = Field(default=0.01, ge=0, le=1, allow_inf_nan=False)


def build_verification_policy(verify: VerifySection) -> VerificationPolicy:
    """Return the verification policy of the chain source."""
    return VerificationPolicy(
        head=VerificationLevel[verify.head.upper()],
        history=VerificationLevel[verify.history.upper()],
        receipts=verify.receipts,
        every_header=verify.every_header,
    )


def compute_audit_interval(verify: VerifySection) -> int:
    """Return the number of new final blocks after which another old window is audited again."""
    return round(1 / verify.audit_share) if verify.audit_share else _NEVER_BLOCKS


# More blocks than any chain will have.
_NEVER_BLOCKS = 2**63
