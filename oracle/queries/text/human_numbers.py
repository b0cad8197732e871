"""Formats durations, ages and small numbers for people; `--json` prints raw numbers instead."""

from decimal import Decimal

from oracle.domain.blocks import format_block_count
from oracle.domain.fixed_point import UNIT
from oracle.queries.text.text_tables import format_utc

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
# Limits below which a duration is shown in seconds, in minutes, and in hours
# (docs/how-to/explain-a-score.md#number-formats).
_MAX_AS_SECONDS = 90
_MAX_AS_MINUTES = 90 * _MINUTE
_MAX_AS_HOURS = 36 * _HOUR
# Minimum number of days for which hours are omitted.
_MIN_WHOLE_DAYS = 10
_NUMBER_WORDS = (
    *("no", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_ORDINAL_WORDS = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_TEENS = range(11, 14)
_AMOUNT_DECIMALS = 6


def format_duration(seconds: int) -> str:
    """Format a duration, rounded down: `41 s`, `12 min`, `1 h 35 min`, `3 days 4 h`."""
    if seconds < _MAX_AS_SECONDS:
        return f"{seconds} s"
    if seconds < _MAX_AS_MINUTES:
        return f"{seconds // _MINUTE} min"
    if seconds < _MAX_AS_HOURS:
        hours = seconds // _HOUR
        minutes = seconds % _HOUR // _MINUTE
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days = seconds // _DAY
    hours = seconds % _DAY // _HOUR
    days_text = f"{days} day{'' if days == 1 else 's'}"
    return f"{days_text} {hours} h" if hours and days < _MIN_WHOLE_DAYS else days_text


def format_age(time: int, now: int) -> str:
    """Format the age of a block time at the time `now`.

    Both times are in unix seconds. The clocks of a chain and of this machine may differ; the clock
    of a local chain may differ by years.
    """
    if time > now:
        return f"{format_duration(time - now)} ahead of this machine's clock"
    return f"{format_duration(now - time)} ago"


def format_time(unix_time: int) -> str:
    """Format a block time: `15 Jan 2027, 08:59:40 UTC`."""
    return format_utc(unix_time, "%d %b %Y, %H:%M:%S UTC")


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: `one timeout`, `three timeouts`, `13 timeouts`."""
    return f"{format_number_in_words(number)} {noun if number == 1 else plural or f'{noun}s'}"


def format_lag(lag_blocks: int, head_number: int) -> str:
    """Format the number of blocks by which the index is behind the newest block."""
    return f"{format_block_count(lag_blocks)} behind the newest, {head_number}"


def format_number_in_words(number: int) -> str:
    """Return a number up to twelve in words, and larger numbers in digits."""
    return _NUMBER_WORDS[number] if number < len(_NUMBER_WORDS) else f"{number:,}"


def format_gwei(wei: int) -> str:
    """Format an amount of wei in gwei: exact, without trailing zeros or exponent."""
    return f"{Decimal(wei).scaleb(-9).normalize():f}"


def format_rank(rank: int) -> str:
    """Format a rank as text: `first`, `third`, `12th`, `21st`."""
    if 0 < rank < len(_ORDINAL_WORDS):
        return _ORDINAL_WORDS[rank]
    return format_ordinal(rank)


def format_ordinal(rank: int) -> str:
    """Format a rank in digits: `1st`, `12th`, `22nd`."""
    ordinal_suffix = (
        "th" if rank % 100 in _TEENS else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    )
    return f"{rank}{ordinal_suffix}"


def format_two_decimals(units: int) -> str:
    """Format a value in units of 10^-18 with two decimals, rounded down."""
    hundredths = units * 100 // UNIT
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def format_percent(units: int) -> str:
    """Format a value in units of 10^-18 as a percentage, rounded down: `0.6 %`."""
    tenths = units * 1_000 // UNIT
    return f"{tenths // 10}.{tenths % 10} %"


def format_amount(units: int, symbol: str, decimals: int) -> str:
    """Format a token amount, rounded down: `400 CNX`, `0.0125 CNX`, `< 0.000001 CNX`."""
    integer_part, fraction_part = divmod(units, 10**decimals)
    digits = f"{fraction_part:0{decimals}d}"[:_AMOUNT_DECIMALS].rstrip("0") if decimals else ""
    if units and not integer_part and not digits:
        return f"< {10**-_AMOUNT_DECIMALS:.{_AMOUNT_DECIMALS}f} {symbol}"
    return f"{integer_part:,}{'.' if digits else ''}{digits} {symbol}"


def format_enumeration(parts: list[str]) -> str:
    """Join the parts of a sentence into an enumeration: `a, b, and c`."""
    *leading_parts, last_part = parts
    if not leading_parts:
        return last_part
    if leading_parts[1:] == []:
        return f"{leading_parts[0]} and {last_part}"
    return f"{', '.join(leading_parts)}, and {last_part}"


def capitalize_first(sentence: str) -> str:
    """Capitalise the first letter of a sentence."""
    return sentence[:1].upper() + sentence[1:]
