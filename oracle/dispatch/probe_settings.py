"""What a network chose for system tasks: how long a window is, what a task asks and pays."""

from dataclasses import dataclass

from oracle.bindings.probe_calls import ProbeOrder


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The numbers of `[probing]`.

    `window_seconds`: a member without a task in it is given one. `max_fee_wei`: so much is locked
    up for the tasks of one window at most, whatever comes back of it. `group`: two others of the
    same card do the same work, so that a task score comes of it.
    """

    window_seconds: int
    max_fee_wei: int
    group: bool
    order: ProbeOrder

    def __post_init__(self) -> None:
        if self.window_seconds < 1 or self.order.fee < 1:
            raise ValueError("a window has a second at least, and a system task a fee")

    def window_of(self, time: int) -> int:
        """Return the number of the window that a block time in seconds lies in."""
        return time // self.window_seconds
