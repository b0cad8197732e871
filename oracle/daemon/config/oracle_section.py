"""The section `[oracle]`: the contract, what reports say and when they leave."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from oracle.daemon.config.sections import ContractAddress, Section
from oracle.domain.reports.sanity_limits import Sanity
from oracle.domain.reports.submission_policy import SubmissionPolicy


class OracleSection(Section):
    # Without an address the daemon indexes only.
    address: ContractAddress | None = None
    publish: bool = False
    level: Literal["soft", "safe"] = "soft"
    period_seconds: int = Field(default=60, ge=1)
    heartbeat_seconds: int = Field(default=3600, ge=1)
    # In units of 1/10,000 of QoS.
    deviation: int = Field(default=100, ge=1, le=10_000)
    report_ttl_seconds: int = Field(default=600, ge=1)
    # Blocks under the head that the contract still checks a report against; as deployed.
    anchor_window: int = Field(default=200, ge=2, le=8191)
    # Where the evidence of proposed kickouts is kept for whoever asks.
    evidence_folder: Path = Path("evidence")
    # Accepted rounds in a row that must have shown a node under the line before it is proposed.
    kick_after_rounds: int = Field(default=3, ge=1, le=100)
    # Words of sixteen nodes in a report; the next one carries the rest. Of all reporters the same.
    max_words: int = Field(default=1024, ge=1, le=1024)
    # Wei per gas paid at once for ordinary news; it grows to the cap until the heartbeat.
    cheap_fee_wei: int | None = Field(default=None, ge=1)
    # Below both of these, news waits for the heartbeat.
    least_words: int = Field(default=1, ge=1)
    least_change: int | None = Field(default=None, ge=1)
    # When a report is held for a human (the sanity gate): shares of the members.
    gate_changed_share: float = Field(default=0.5, ge=0, le=1)
    # In units of 1/10,000 of QoS.
    gate_changed_by: int = Field(default=2500, ge=0, le=10_000)
    gate_kick_share: float = Field(default=0.25, ge=0, le=1)
    # Of the median of as many periods' events.
    gate_events_share: float = Field(default=0.5, ge=0, le=1)
    gate_periods: int = Field(default=30, ge=5, le=1000)
    # Smaller networks pass.
    gate_least_members: int = Field(default=20, ge=1)

    @property
    def patience(self) -> SubmissionPolicy:
        """When a report is worth its gas."""
        return SubmissionPolicy(self.cheap_fee_wei, self.least_words, self.least_change)

    @property
    def sanity(self) -> Sanity:
        """When a report waits for a human."""
        return Sanity(
            changed_share=self.gate_changed_share,
            changed_by=self.gate_changed_by,
            kick_share=self.gate_kick_share,
            events_share=self.gate_events_share,
            periods=self.gate_periods,
            least_members=self.gate_least_members,
        )
