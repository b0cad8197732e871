"""The context of kickouts: the rules that make a node due, and the verification of evidence."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from oracle.domain.reports.report import ReportSettings
from oracle.domain.scoring.rules import Rules
from oracle.kickouts.kickout_eligibility import EvidenceHashCache, KickoutRules
from oracle.kickouts.proof import EvidenceVerifier
from oracle.quorum.quorum_context import QuorumContext
from oracle.txmgr.context import AccountContext

# The kinds of kickout calls in the outbox.
PROPOSE_KICK, EXECUTE_KICK, CANCEL_KICK = "propose_kick", "execute_kick", "cancel_kick"
RETRY_KICK = "retry_kick"
# The calls that lead to an expulsion; the subject of each is the node's address.
EXPULSION_KINDS = (PROPOSE_KICK, EXECUTE_KICK, RETRY_KICK)


@dataclass(frozen=True, slots=True)
class KickoutContext:
    """The settings and helpers of kickouts.

    `evidence_folder` holds the evidence files; each is written before anything refers to its
    hash. `verifier` verifies the blocks behind a kickout; without a verifier every kickout waits.
    `evidence_cache` keeps the evidence hashes of live kickouts from one tick to the next.
    """

    quorum: QuorumContext
    rules: Rules
    evidence_folder: Path
    verifier: EvidenceVerifier | None = None
    evidence_cache: EvidenceHashCache = field(default_factory=EvidenceHashCache)
    # Whether the profile of the network holds every kickout.
    holds_kickouts: bool = False

    @property
    def kickout_rules(self) -> KickoutRules:
        """The rules of kickouts."""
        return KickoutRules(self.rules, self.settings, self.holds_kickouts)

    @property
    def account_context(self) -> AccountContext:
        """The context of the sending account."""
        return self.quorum.account_context

    @property
    def settings(self) -> ReportSettings:
        """The settings of reports: periods, bands and times."""
        return self.quorum.settings

    def to_dry_run(self, quorum: QuorumContext, folder: Path) -> "KickoutContext":
        """Return a copy for a dry run, which verifies nothing and writes evidence to `folder`."""
        verifier = None if self.verifier is None else replace(self.verifier, is_dry_run=True)
        return replace(self, quorum=quorum, evidence_folder=folder, verifier=verifier)
