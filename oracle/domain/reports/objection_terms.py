"""How long objections delay an accusation; a separate module, because settings import it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectionTerms:
    """How long objections delay this reporter's accusations, in seconds.

    From the moment a kickout is due, an owner may object for `window`. An objection that the
    automatic check did not decide waits up to `answer` for the operator. After the operator
    declined an objection, objections to later kickouts of the node delay nothing for `ignored`.
    """

    window: int
    answer: int
    ignored: int
