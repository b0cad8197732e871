"""Says why the next report waits for a human: it is not believable, or the reporters disagree."""

from oracle.services.desk import Desk
from oracle.services.timing.gating import holding


def why_waiting(desk: Desk) -> str | None:
    """Return why the newest held report is held; None: none is."""
    with desk.store.reading() as unit:
        held = holding(unit)
    return f"period {held[-1].period} is held: {held[-1].reason}" if held else None
