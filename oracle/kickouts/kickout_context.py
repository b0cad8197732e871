"""The context of kickouts: the rules that make a node due, and the verification of evidence."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from oracle.domain.reports.report import ReportSettings
from oracle.domain.scoring.rules import Rules
from oracle.kickouts.kickout_eligibility import EvidenceHashCache
from oracle.kickouts.proof import DryRunVerifier, EvidenceVerifier
from oracle.quorum.quorum_context import QuorumContext
from oracle.txmgr.context import TxContext

# How the outbox names the calls about a kickout.
PROPOSE_KICK, EXECUTE_KICK, CANCEL_KICK = "propose_kick", "execute_kick", "cancel_kick"
RETRY_KICK = "retry_kick"
# Those that are against a node; the subject of each is its address.
EXPULSION_KINDS = (PROPOSE_KICK, EXECUTE_KICK, RETRY_KICK)


@dataclass(frozen=True, slots=True)
class KickoutContext:
    """`evidence_folder`: where evidence is laid down before anything names its hash.

    `verifier` verifies what a kickout rests on; without one every kickout waits. `evidence` keeps
    the hashes of live kickouts' evidence between two ticks.
    """

    quorum: QuorumContext
    rules: Rules
    evidence_folder: Path
    verifier: EvidenceVerifier | None = None
    evidence_cache: EvidenceHashCache = field(default_factory=EvidenceHashCache)

    @property
    def tx(self) -> TxContext:
        """The account that sends."""
        return self.quorum.tx

    @property
    def settings(self) -> ReportSettings:
        """Periods, bands and times of reports."""
        return self.quorum.settings

    def to_dry_run(self, quorum: QuorumContext, folder: Path) -> "KickoutContext":
        """Return the same for a dry run: it verifies nothing, and writes evidence to `folder`."""
        verifier = self.verifier
        dry_run_verifier = None if verifier is None else DryRunVerifier.from_verifier(verifier)
        return replace(self, quorum=quorum, evidence_folder=folder, verifier=dry_run_verifier)
