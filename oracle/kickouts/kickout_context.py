"""The context of kickouts: their rules, and the folder for published evidence."""

from dataclasses import dataclass, field
from pathlib import Path

from oracle.domain.ids import Address
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.report import ReportSettings
from oracle.indexer.round_leaves import LeafCache
from oracle.quorum.quorum_context import QuorumContext
from oracle.txmgr.context import AccountContext


@dataclass(frozen=True, slots=True)
class KickoutContext:
    """The settings and helpers of kickouts.

    `evidence_folder` contains the evidence files; a node's file is written before the node is
    accused. `leaf_cache` keeps the leaves of the last rounds in memory between ticks.
    `objections_contract` is the contract to which posted objections are submitted, or None if
    posts are not accepted.
    """

    quorum: QuorumContext
    policy: KickoutPolicy
    evidence_folder: Path
    leaf_cache: LeafCache = field(default_factory=LeafCache)
    objections_contract: Address | None = None

    @property
    def account_context(self) -> AccountContext:
        """The context of the sending account."""
        return self.quorum.account_context

    @property
    def report_settings(self) -> ReportSettings:
        """The settings of reports: periods, bands and times."""
        return self.quorum.report_settings
