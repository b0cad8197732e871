"""Remembers what our reports lack of a quorum, for whoever asks us."""

from dataclasses import dataclass, field

from oracle.domain.ids import Hash


@dataclass(slots=True)
class MissingSignatures:
    """Written by the planning of a push alone; None: nothing lacks.

    `signatures`: who has not signed the report that has the turn, where that lasts. `standing`:
    why what our own signer signs counts for nothing.
    """

    signatures: str | None = None
    standing: str | None = None
    # The statement that others have not signed, and since which second of the chain.
    _waiting: tuple[Hash, int] | None = field(default=None, repr=False)

    @property
    def why(self) -> str | None:
        """Return what a person has to know first."""
        return self.standing or self.signatures

    def began(self, digest: Hash, now: int) -> int:
        """Note that a statement lacks signatures; return since when, in chain time."""
        if self._waiting is None or self._waiting[0] != digest:
            self._waiting = (digest, now)
        return self._waiting[1]

    def nothing(self) -> None:
        """Note that no signature lacks."""
        self.signatures = self._waiting = None
