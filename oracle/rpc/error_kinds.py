"""What vendors say when they refuse, and what it means.

Their words change overnight: nothing depends on this table but how quickly we react. What it does
not know is `UNKNOWN`, and is asked of another endpoint, then for less.
See docs/reference/rpc-requirements.md#errors-when-reading.
"""

import re
from enum import StrEnum


class ErrorKind(StrEnum):
    """What to do about it: wait, ask for less, ask another endpoint, or put the settings right."""

    # Wait; the question stays as it is.
    THROTTLED = "throttled"
    # Ask for less.
    TOO_LARGE = "too large"
    SLOW = "slow"
    CUT = "cut off"
    # Wait for a block, or ask another endpoint.
    NOT_THERE = "not there yet"
    BEHIND = "behind"
    # Ask another endpoint; never take it for empty.
    PRUNED = "pruned"
    UNSUPPORTED = "not supported"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    INVALID = "invalid answer"
    UNKNOWN = "failed"
    # Nothing was asked: it failed too often, or is not to be used at all.
    BACKOFF = "backoff"
    QUARANTINED = "quarantined"


# A smaller range of logs may be answered.
DIVISIBLE = frozenset({ErrorKind.TOO_LARGE, ErrorKind.SLOW, ErrorKind.CUT, ErrorKind.UNKNOWN})
# They say nothing against the endpoint itself.
BLAMELESS = frozenset(
    {
        ErrorKind.NOT_THERE,
        ErrorKind.TOO_LARGE,
        ErrorKind.UNSUPPORTED,
        ErrorKind.PRUNED,
        ErrorKind.BACKOFF,
        ErrorKind.QUARANTINED,
    }
)


_THROTTLE = (
    r"rate.?limit|too many requests|request limit|throttl|quota|credits|throughput"
    r"|per (?:second|minute|day)|\bcapacity|compute units|\bCUs?\b"
)
_ORDER: tuple[tuple[ErrorKind, tuple[str, ...]], ...] = (
    (ErrorKind.THROTTLED, (_THROTTLE,)),
    (
        # How many blocks, then how many results: words that cannot mean anything else.
        ErrorKind.TOO_LARGE,
        (
            r"limited to (?:a )?[\d,]+|limited to 0 ?- ?[\d,]+|up to a [\d,]+k? block range",
            r"max(?:imum)? (?:block )?range|maximum (?:allowed|is set to)|at most [\d,]+ blocks",
            r"range allowed for your plan|blocks distance|over [\d,]+ blocks|too many blocks",
            r"range (?:is )?too (?:large|wide|big)|range limit exceeded|exceeds.* range",
            r"more than [\d,]+ (?:results|logs)|too many (?:results|logs)|limit of [\d,]+",
            r"exceeds? (?:max )?results|max (?:results|logs)",
            r"response (?:size|is too big|too large|is too large)|retry with the range",
        ),
    ),
    (ErrorKind.SLOW, (r"tim(?:ed?|e) ?-?out|aborted|took too long|deadline exceeded",)),
    (
        ErrorKind.NOT_THERE,
        (
            r"(?:block|height) is out of range|outofrange|beyond .*head|unfinalized",
            r"header not found|unknown block|block .*(?:not found|cannot be found)",
            r"after last accepted block",
        ),
    ),
    (
        ErrorKind.PRUNED,
        (
            r"pruned|history (?:is )?(?:unavailable|not available)|historical .*(?:un|not )avail",
            r"missing trie node|due to pruning|state .*discarded",
        ),
    ),
    (
        ErrorKind.UNSUPPORTED,
        (r"method .*not (?:found|supported|available)|does not exist|is not available",),
    ),
    (
        ErrorKind.TOO_LARGE,
        (r"range|(?:response|result|query).*(?:size|large|big)|max(?:imum)? blocks",),
    ),
)
_PATTERNS = tuple(
    (kind, re.compile("|".join(patterns), re.IGNORECASE)) for kind, patterns in _ORDER
)
# Where the words say nothing. -32005 alone may be quota or size: without words it is size.
_CODES = {
    429: ErrorKind.THROTTLED,
    42903: ErrorKind.THROTTLED,
    4444: ErrorKind.PRUNED,
    -32001: ErrorKind.NOT_THERE,
    -32002: ErrorKind.SLOW,
    -32004: ErrorKind.UNSUPPORTED,
    -32005: ErrorKind.TOO_LARGE,
    -32007: ErrorKind.THROTTLED,
    -32012: ErrorKind.THROTTLED,
    -32014: ErrorKind.NOT_THERE,
    -32029: ErrorKind.THROTTLED,
    -32090: ErrorKind.THROTTLED,
    -32601: ErrorKind.UNSUPPORTED,
}
_LIMIT = re.compile(
    r"(?:limited to (?:a |0 ?- ?)?|up to (?:a )?|max(?:imum)? (?:block )?range[^\d]{0,20}"
    r"|at most |allowed[^\d]{0,30} is |is set to:? ?|blocks distance: |over |max(?: is)?:? "
    r"|for your plan \(\d+ > )([\d,]{0,18}\d)(k?)\b(?! ?(?:results|logs))",
    re.IGNORECASE,
)
_SUGGESTED = re.compile(
    r"(?:retry with the range |range[^\[\d]{0,30}\[)"
    r"(0x[\da-f]{1,16}|\d{1,19})\s*[-,]\s*(0x[\da-f]{1,16}|\d{1,19})",
    re.IGNORECASE,
)
_THROTTLED_PAGE = re.compile(r"too many requests|rate.?limit|throttl", re.IGNORECASE)


def kind_of(code: int, words: str) -> ErrorKind:
    """Return what an error of JSON-RPC means, by its words first and by its code last."""
    for kind, pattern in _PATTERNS:
        if pattern.search(words):
            return kind
    return _CODES.get(code, ErrorKind.UNKNOWN)


def blocks_in(words: str) -> int | None:
    """Return how many blocks an endpoint says that it takes at once; None: it does not say."""
    found = _LIMIT.search(words)
    if found is None:
        return None
    return int(found[1].replace(",", "")) * (1_000 if found[2] else 1) or None


def range_in(words: str) -> tuple[int, int] | None:
    """Return the range that an endpoint suggests, as it wrote it; it may be nonsense."""
    found = _SUGGESTED.search(words)
    return None if found is None else (_height(found[1]), _height(found[2]))


def _height(written: str) -> int:
    return int(written, 16) if written[:2] in {"0x", "0X"} else int(written)


def is_throttled_page(body: bytes) -> bool:
    """Tell whether something that is no JSON-RPC answer asks us to wait."""
    return _THROTTLED_PAGE.search(body[:2_000].decode("utf-8", "replace")) is not None
