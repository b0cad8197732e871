"""Defines how long objections delay an accusation, in a module that settings can import."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectionTerms:
    """How long objections delay this reporter's accusations, in seconds.

    After a kickout becomes due, the owner of the node may object for `window` seconds. An
    objection that the automatic check did not decide waits up to `answer` seconds for the
    operator. After the operator declined an objection, objections to later kickouts of the node
    delay nothing for `ignored` seconds.
    """

    window: int
    answer: int
    ignored: int
