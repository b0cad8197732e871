"""The context of reporting: the quorum, the rules hash, and limits for sending and holding."""

from dataclasses import dataclass, field
from typing import Literal

from oracle.chain.heads import Heads
from oracle.domain.ids import Hash
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.sanity_limits import SanityLimits
from oracle.domain.reports.submission_policy import SubmissionPolicy
from oracle.indexer.evidence_verifier import EvidenceVerifier
from oracle.indexer.round_leaves import LeafCache
from oracle.quorum.quorum_context import QuorumContext
from oracle.txmgr.context import BLOCKS_UNDER_HEAD, AccountContext


@dataclass(slots=True)
class InheritedReports:
    """Reports that another process or state produced, whose leaves may be wrong.

    `newest_period` is the newest report when this process began to plan, or after the last refold,
    or None if there was none. `refold_count` is the number of refolds by then, or None if this
    process has not begun to plan. `compared_roots` are the roots whose leaves this process has
    compared with the nodes since then.
    """

    newest_period: int | None = None
    refold_count: int | None = None
    compared_roots: set[Hash] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ReportingContext:
    """The settings and limits of reporting.

    `level` limits a report's as-of block, either to 2 blocks below the head (`soft`) or to the
    chain's safe block (`safe`). `submission_policy` decides when a report is worth its gas, and
    `sanity` decides when a report is held for an operator. `verifier` verifies the blocks behind
    newly due kickouts; without a verifier, reports that make a kickout due are not signed where
    the rules require the verification. `leaf_cache` keeps the leaves of the last rounds from one
    tick to the next.
    `inherited_reports` are compared with the nodes before this process signs them.
    """

    quorum: QuorumContext
    rules_hash: Hash
    policy: KickoutPolicy
    level: Literal["soft", "safe"] = "soft"
    submission_policy: SubmissionPolicy = field(default_factory=SubmissionPolicy)
    sanity: SanityLimits = field(default_factory=SanityLimits)
    verifier: EvidenceVerifier | None = None
    leaf_cache: LeafCache = field(default_factory=LeafCache)
    inherited_reports: InheritedReports = field(default_factory=InheritedReports)

    @property
    def account_context(self) -> AccountContext:
        """The context of the account that sends pushes."""
        return self.quorum.account_context

    @property
    def report_settings(self) -> ReportSettings:
        """The settings that determine which reports are signed, and when."""
        return self.quorum.report_settings

    def find_latest_reportable_block(self, heads: Heads) -> int:
        """Return the highest as-of block that a report may have now."""
        max_block = heads.latest.number - BLOCKS_UNDER_HEAD
        if self.level == "safe":
            return min((heads.safe or heads.final).number, max_block)
        return max_block
