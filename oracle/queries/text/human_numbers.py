"""Formats durations, ages and small numbers for people; programs get raw numbers by --json."""

from oracle.domain.fixed_point import UNIT
from oracle.queries.text.text_tables import in_utc

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
# Limits of the smaller units (docs/how-to/explain-a-score.md#how-numbers-are-said).
_LAST_SECOND, _LAST_MINUTE, _LAST_HOUR = 90, 90 * _MINUTE, 36 * _HOUR
_WORDS = (
    *("no", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_PLACES = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_TEENS = range(11, 14)
# Maximum number of decimal places of an amount.
_AMOUNT_DIGITS = 6


def span(seconds: int) -> str:
    """Return a duration as text: `41 s`, `12 min`, `5 h`, `3 days`; rounded down."""
    if seconds < _LAST_SECOND:
        return f"{seconds} s"
    if seconds < _LAST_MINUTE:
        return f"{seconds // _MINUTE} min"
    if seconds < _LAST_HOUR:
        return f"{seconds // _HOUR} h"
    return f"{seconds // _DAY} days" if seconds >= 2 * _DAY else "1 day"


def age(time: int, now: int) -> str:
    """Return how long before `now` a block time is, as text; both in unix seconds.

    The clocks of a chain and of this machine may differ, a local chain's by years.
    """
    if time > now:
        return f"{span(time - now)} ahead of this machine's clock"
    return f"{span(now - time)} ago"


def moment(seconds: int) -> str:
    """Return a block time as text: `15 Jan 2027, 08:59:40 UTC`."""
    return in_utc(seconds, "%d %b %Y, %H:%M:%S UTC")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `one timeout`, `three timeouts`, `13 timeouts`."""
    return f"{in_words(number)} {noun if number == 1 else plural or f'{noun}s'}"


def blocks(number: int) -> str:
    """Return a number of blocks in digits: `1 block`, `1,200 blocks`."""
    return f"{number:,} {'block' if number == 1 else 'blocks'}"


def behind_text(lag: int, head: int) -> str:
    """Return how far the index is behind the newest block, as text."""
    return f"{blocks(lag)} behind the newest, {head}"


def in_words(number: int) -> str:
    """Return a number up to twelve in words, others in digits."""
    return _WORDS[number] if number < len(_WORDS) else f"{number:,}"


def rank_text(rank: int) -> str:
    """Return a rank as text: `first`, `third`, `12th`, `21st`."""
    if 0 < rank < len(_PLACES):
        return _PLACES[rank]
    return ordinal(rank)


def ordinal(rank: int) -> str:
    """Return a rank in digits: `1st`, `12th`, `22nd`."""
    last = "th" if rank % 100 in _TEENS else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{last}"


def two_digits(units: int) -> str:
    """Return units of 10^-18 with two decimals, rounded down like all scores."""
    hundredths = units * 100 // UNIT
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def amount(units: int, symbol: str, decimals: int) -> str:
    """Return an amount in a token: `400 CNX`, `0.0125 CNX`, `< 0.000001 CNX`; rounded down."""
    whole, part = divmod(units, 10**decimals)
    digits = f"{part:0{decimals}d}"[:_AMOUNT_DIGITS].rstrip("0") if decimals else ""
    if units and not whole and not digits:
        return f"< {10**-_AMOUNT_DIGITS:.{_AMOUNT_DIGITS}f} {symbol}"
    return f"{whole:,}{'.' if digits else ''}{digits} {symbol}"


def listed(parts: list[str]) -> str:
    """Return the parts of a sentence as an enumeration: `a, b, and c`."""
    *before, last = parts
    if not before:
        return last
    return f"{before[0]} and {last}" if before[1:] == [] else f"{', '.join(before)}, and {last}"


def capital(sentence: str) -> str:
    """Return a sentence with its first letter capitalised."""
    return sentence[:1].upper() + sentence[1:]
