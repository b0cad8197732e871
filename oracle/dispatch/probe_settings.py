"""The settings of system tasks: the length of a window, the order and the fee limit."""

from dataclasses import dataclass

from oracle.bindings.probe_calls import ProbeOrder


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The settings of `[probing]`.

    `window_seconds`: a member without a task for a whole window gets a system task. `max_fee_wei`:
    maximum fees that the tasks of one window may lock up, including fees that are refunded later.
    `group`: whether two other nodes with the same card do the same work, so that a task score
    results.
    """

    window_seconds: int
    max_fee_wei: int
    group: bool
    order: ProbeOrder

    def __post_init__(self) -> None:
        if self.window_seconds < 1 or self.order.fee < 1:
            raise ValueError(
                "[probing]: window_seconds and the fee of a system task must be at least 1"
            )

    def get_window_number(self, time: int) -> int:
        """Return the number of the window that a block time in seconds lies in."""
        return time // self.window_seconds
