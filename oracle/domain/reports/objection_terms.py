"""How long objections delay an accusation; apart from their checks, because settings use it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectionTerms:
    """How long objections delay this reporter's accusations, in seconds.

    From the moment a kickout is due, an owner may object for `window`. An objection that no check
    decided waits `answer` for the operator. After an objection that the operator declined, those
    to later kickouts of the node delay nothing for `ignored`.
    """

    window: int
    answer: int
    ignored: int
