"""Numbers and times as people say them; used by sentences and by the pages.

Whole numbers only: a fraction of 10^-18 is cut, as the product rounds down everywhere.
"""

from oracle.domain.fixed_point import UNIT
from oracle.queries.text.text_tables import in_utc

_WORDS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
_PLACES = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
)  # fmt: skip
_TEENS = range(11, 14)
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
# Up to here the smaller unit is said.
_MOST_MINUTES, _MOST_HOURS = 90 * _MINUTE, 36 * _HOUR


def in_words(count: int) -> str:
    """Write a count as a word up to twelve, above in digits."""
    return _WORDS[count] if 0 <= count < len(_WORDS) else str(count)


def counted(count: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun: `one task`, `13 tasks`."""
    return f"{in_words(count)} {one if count == 1 else many or f'{one}s'}"


def place_in_words(rank: int) -> str:
    """Write a rank from 1: `third`, `11th`."""
    return _PLACES[rank - 1] if 1 <= rank <= len(_PLACES) else ordinal(rank)


def ordinal(number: int) -> str:
    """Write a place in digits: `1st`, `12th`."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    is_teen = number % 100 in _TEENS
    return f"{number}{'th' if is_teen else ends.get(number % 10, 'th')}"


def span(seconds: int) -> str:
    """Write a length of time: `41 s`, `12 min`, `5 h`, `3 days`."""
    if seconds < _MINUTE:
        return f"{max(0, seconds)} s"
    if seconds < _MOST_MINUTES:
        return f"{seconds // _MINUTE} min"
    if seconds < _MOST_HOURS:
        return f"{seconds // _HOUR} h"
    return f"{seconds // _DAY} days" if seconds >= 2 * _DAY else f"{seconds // _HOUR} h"


def moment(seconds: int) -> str:
    """Write a block time: `15 Jan 2027, 08:59:40 UTC`."""
    return in_utc(seconds, "%d %b %Y, %H:%M:%S UTC")


def fraction(value: int, digits: int = 2) -> str:
    """Write units of 10^-18 with some digits, rounded down."""
    scaled = value * 10**digits // UNIT
    return f"{scaled // 10**digits}.{scaled % 10**digits:0{digits}d}"


def joined(parts: list[str]) -> str:
    """Write parts as a list: `a, b, and c`."""
    if len(parts) <= 1:
        return "".join(parts)
    if len(parts) == 2:  # noqa: PLR2004 - two need no comma
        return f"{parts[0]} and {parts[1]}"
    return f"{', '.join(parts[:-1])}, and {parts[-1]}"


def opened(sentence: str) -> str:
    """Write a sentence with its first letter large."""
    return sentence[:1].upper() + sentence[1:]
