"""The section `[oracle]`: the contract, what reports say and when they leave."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from oracle.daemon.config.sections import ContractAddress, Section
from oracle.domain.reports.lanes import kick_below_of
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.sanity_limits import Sanity
from oracle.domain.reports.submission_policy import SubmissionPolicy
from oracle.domain.scoring.rules import Rules


class OracleSection(Section):
    # The oracle contract; without it nothing is reported.
    address: ContractAddress | None = None
    # Send transactions; `run --publish` and `--dry-run` win.
    publish: bool = False
    # What a report may rest on: `soft` (2 blocks under the head) or the chain's `safe`
    # block.
    level: Literal["soft", "safe"] = "soft"
    # One report is cut in each period of block time; stays as it is for a database. Part of
    # the rules hash.
    period_seconds: int = Field(default=60, ge=1)
    # Every score is reported at least this often. Part of the rules hash.
    heartbeat_seconds: int = Field(default=3600, ge=1)
    # Change of a score, in 1/10,000 of QoS, that is reported. Part of the rules hash.
    deviation: int = Field(default=100, ge=1, le=10_000)
    # How long after its as-of block a report is accepted. Part of the rules hash.
    report_ttl_seconds: int = Field(default=600, ge=1, le=3600)
    # Blocks back that the contract checks; as it was deployed.
    anchor_window: int = Field(default=200, ge=2, le=8191)
    # Where the evidence of kickouts is written.
    evidence_folder: Path = Path("evidence")
    # Accepted rounds in a row, all of blocks since the kickout became due, that must have
    # shown the node under the line before it is proposed. Part of the rules hash.
    kick_after_rounds: int = Field(default=3, ge=1, le=100)
    # Words of sixteen nodes in one report; what does not fit leads the next. A new word
    # takes 23,200 gas, another one 6,100: set less where a block, or a transaction (16.7
    # million by EIP-7825), has less. Part of the rules hash.
    max_words: int = Field(default=1024, ge=1, le=1024)
    # Scores that a node has before a round registers it; one that is excluded is registered
    # at once. The transmitter pays 26,000 gas for each. Part of the rules hash.
    min_scores: int = Field(default=1, ge=1, le=50)
    # Wei per gas that ordinary news pays at once; it grows with the age of the last round up
    # to `limits.max_fee_per_gas_wei`, reached at the heartbeat; left out: the cap at once. A
    # node that crosses a band never waits.
    cheap_fee_wei: int | None = Field(default=None, ge=1)
    # Ordinary news of fewer words waits for the heartbeat.
    min_words: int = Field(default=1, ge=1)
    # Ordinary news of fewer words than `oracle.min_words` leaves all the same where its
    # lanes move by so much in sum, in 1/10,000 of QoS.
    min_change: int | None = Field(default=None, ge=1)
    # A report is held where a larger share of the members would change by more than
    # `sanity_changed_by`; `report release` lets it go.
    sanity_changed_share: float = Field(default=0.5, ge=0, le=1)
    # The change that `oracle.sanity_changed_share` counts, in 1/10,000 of QoS.
    sanity_changed_by: int = Field(default=2500, ge=0, le=10_000)
    # A report is held where a larger share of the members would newly fall under the kickout
    # line or become unselectable.
    sanity_kick_share: float = Field(default=0.25, ge=0, le=1)
    # A report is held where tasks that ended in its period, and the nodes that had them, are
    # fewer than this share of what is usual, and nothing proves the blocks; 0: never.
    sanity_events_share: float = Field(default=0.5, ge=0, le=1)
    # Usual is the median of so many periods before.
    sanity_periods: int = Field(default=30, ge=5, le=1000)
    # Networks with fewer members are never held.
    sanity_min_members: int = Field(default=20, ge=1)

    @property
    def submission_policy(self) -> SubmissionPolicy:
        """When a report is worth its gas."""
        return SubmissionPolicy(self.cheap_fee_wei, self.min_words, self.min_change)

    @property
    def sanity(self) -> Sanity:
        """When a report waits for a human."""
        return Sanity(
            changed_share=self.sanity_changed_share,
            changed_by=self.sanity_changed_by,
            kick_share=self.sanity_kick_share,
            events_share=self.sanity_events_share,
            periods=self.sanity_periods,
            least_members=self.sanity_min_members,
        )


def report_settings(oracle: OracleSection, rules: Rules) -> ReportSettings:
    """Return what the section says of reports; the kickout line is the rules' own, as a QoS."""
    return ReportSettings(
        period_seconds=oracle.period_seconds,
        heartbeat_seconds=oracle.heartbeat_seconds,
        deviation=oracle.deviation,
        ttl_seconds=oracle.report_ttl_seconds,
        kick_below=kick_below_of(rules),
        kick_after_rounds=oracle.kick_after_rounds,
        max_words=oracle.max_words,
        min_scores=oracle.min_scores,
    )
