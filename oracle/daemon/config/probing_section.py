"""The section `[probing]` and its faults."""

from typing import Literal

from pydantic import Field

from oracle.daemon.config.sections import Section

# What a task may ask for in TaskNetwork.
_MAX_SIZE, _MAX_TIMEOUT = 2**32 - 1, 86_400
_MIN_WINDOW = 60


class ProbingSection(Section):
    # Give a system task to each member that had no task in the window; the dispatcher pays them
    # from its purse in the network contract.
    enabled: bool = False
    # A window of block time.
    window_seconds: int = Field(default=86_400, ge=_MIN_WINDOW)
    # What a system task pays, wei; no less than the contract's floor.
    fee_wei: int | None = Field(default=None, ge=1, lt=2**96)
    # What the system tasks of one window lock up at most, wei; what comes back is not counted.
    max_fee_per_window_wei: int | None = Field(default=None, ge=1)
    # Let two others of the same card do the same work, so that a task score comes of it.
    group: bool = True
    # What it asks for: `sd`, `llm` or `sd_ft`.
    kind: Literal["sd", "llm", "sd_ft"] = "sd"
    # Models that it needs; who has not all of them on disk is given none.
    models: tuple[str, ...] = Field(default=(), max_length=64)
    # Units of work.
    size: int = Field(default=1, ge=1, le=_MAX_SIZE)
    # The time that it gives a node.
    timeout_seconds: int = Field(default=300, ge=1, le=_MAX_TIMEOUT)


def faults_in_probing(probing: ProbingSection, *, dispatches: bool) -> list[str]:
    """Return what is missing or cannot be; `dispatches`: drawn tasks are started here."""
    if not probing.enabled:
        return []
    faults = [
        f"probing.{name}: is missing, and probing.enabled is on"
        for name in ("fee_wei", "max_fee_per_window_wei")
        if getattr(probing, name) is None
    ]
    if not dispatches:
        faults.append("probing.enabled: needs dispatch.start_block, and the dispatcher's key")
    if probing.timeout_seconds * 2 > probing.window_seconds:
        faults.append("probing.timeout_seconds: is above half of probing.window_seconds")
    return faults
