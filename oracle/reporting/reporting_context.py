"""The context of reporting: the quorum, the rules in force, and when a report is sent or held."""

from dataclasses import dataclass, field
from typing import Literal

from oracle.chain.heads import Heads
from oracle.domain.ids import Hash
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.sanity_limits import SanityLimits
from oracle.domain.reports.submission_policy import SubmissionPolicy
from oracle.quorum.quorum_context import QuorumContext
from oracle.txmgr.context import BLOCKS_UNDER_HEAD, TxContext

# The kind of a report push in the outbox.
PUSH = "push"


@dataclass(frozen=True, slots=True)
class ReportingContext:
    """The settings and limits of reporting.

    `level` is the head that a report's as-of block must not exceed. `submission_policy` decides
    when a report is worth its gas, and `sanity` when it is held for an operator.
    """

    quorum: QuorumContext
    rules_hash: Hash
    level: Literal["soft", "safe"] = "soft"
    submission_policy: SubmissionPolicy = field(default_factory=SubmissionPolicy)
    sanity: SanityLimits = field(default_factory=SanityLimits)

    @property
    def tx(self) -> TxContext:
        """The account that sends."""
        return self.quorum.tx

    @property
    def settings(self) -> ReportSettings:
        """Periods, bands and times of reports."""
        return self.quorum.settings

    def max_as_of_block(self, heads: Heads) -> int:
        """Return the highest as-of block of a report that is sent now."""
        max_block = heads.latest.number - BLOCKS_UNDER_HEAD
        if self.level == "safe":
            return min((heads.safe or heads.final).number, max_block)
        return max_block
