"""Remembers what our reports lack of a quorum, for whoever asks us."""

from dataclasses import dataclass


@dataclass(slots=True)
class Lack:
    """Written by the planning of a push alone; None: nothing lacks.

    `signatures`: who has not signed the report that has the turn, where that lasts. `standing`:
    why what our own signer signs counts for nothing.
    """

    signatures: str | None = None
    standing: str | None = None

    @property
    def why(self) -> str | None:
        """Return what a person has to know first."""
        return self.standing or self.signatures
