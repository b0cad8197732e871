"""The section `[probing]`, and the checks of its settings."""

from typing import Literal

from pydantic import Field

from oracle.daemon.config.sections import Section

# The limits of a task in TaskNetwork.
_MAX_SIZE, _MAX_TIMEOUT = 2**32 - 1, 86_400
_MIN_WINDOW = 60


class ProbingSection(Section):
    # Start a system task for each member that had no task in the window; the dispatcher pays for
    # it from its balance in the network contract.
    enabled: bool = False
    # The length of a window, in seconds of block time.
    window_seconds: int = Field(default=86_400, ge=_MIN_WINDOW)
    # The fee of a system task in wei, at least the contract's minimum.
    fee_wei: int | None = Field(default=None, ge=1, lt=2**96)
    # The maximum fees that the system tasks of one window lock up, in wei; refunds are not
    # deducted.
    max_fee_per_window_wei: int | None = Field(default=None, ge=1)
    # Whether two other nodes with the same GPU do the same work, so that the task gets a score.
    group: bool = True
    # The kind of system task: `sd`, `llm` or `sd_ft`.
    kind: Literal["sd", "llm", "sd_ft"] = "sd"
    # Models that a system task needs; nodes without all of them on disk get none.
    models: tuple[str, ...] = Field(default=(), max_length=64)
    # The size of a system task, in units of work.
    size: int = Field(default=1, ge=1, le=_MAX_SIZE)
    # The timeout of a system task, in seconds.
    timeout_seconds: int = Field(default=300, ge=1, le=_MAX_TIMEOUT)


def find_probing_faults(probing: ProbingSection, *, is_dispatching: bool) -> list[str]:
    """Return a fault for each missing or invalid setting of `[probing]`.

    `is_dispatching` is whether the settings let this daemon start drawn tasks.
    """
    if not probing.enabled:
        return []
    faults = [
        f"probing.{name}: missing; required if probing.enabled is on"
        for name in ("fee_wei", "max_fee_per_window_wei")
        if getattr(probing, name) is None
    ]
    if not is_dispatching:
        faults.append("probing.enabled: requires dispatch.start_block and the dispatcher's key")
    if probing.timeout_seconds * 2 > probing.window_seconds:
        faults.append("probing.timeout_seconds: must be at most half of probing.window_seconds")
    return faults
