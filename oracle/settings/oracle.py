"""The section `[oracle]`: the contract, what reports say and when they leave."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from oracle.settings.section import ContractAddress, Section


class Oracle(Section):
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
