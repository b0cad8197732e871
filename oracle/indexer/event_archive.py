"""The stored history of a network, with the rules that fold it into the state."""

from dataclasses import dataclass

from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.reports.kickout_policy import KickoutPolicy, ObjectionTerms
from oracle.domain.scoring.rules import Rules
from oracle.store.database import Store


@dataclass(frozen=True, slots=True)
class EventArchive:
    """The stored history for computing snapshots, explanations and proofs.

    `max_logs` is the maximum number of logs that are folded for one explanation, or None for no
    limit.
    """

    store: Store
    reader: EventReader
    rules: Rules
    max_logs: int | None = None
    # The terms are None if objections are not indexed.
    objection_terms: ObjectionTerms | None = None

    @property
    def kickout_policy(self) -> KickoutPolicy:
        """The policy for reviewing and delaying due kickouts."""
        return KickoutPolicy(self.rules, self.reader.holds_kickouts, self.objection_terms)
