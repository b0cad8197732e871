"""Formats fractions, times, addresses and names for the lab's pages and tables."""

from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.domain.ids import Address
from oracle.queries.text.text_tables import format_utc, sanitize_text

# Text that is shown in place of a missing value.
NO_VALUE = "-"
_SHOWN_DIGITS = 6
# Maximum time span of a plot that shows seconds.
_MAX_SECONDS_SPAN = 3 * 3600
_DAY_SECONDS = 86_400
# Maximum length of a system name. Longer names are truncated.
_MAX_NAME_LENGTH = 80


def shorten_address(node: Address) -> str:
    """Shorten an address to its first six and last four digits."""
    return f"{node[: 2 + _SHOWN_DIGITS]}…{node[-4:]}"


def format_system_name(name: str) -> str:
    """Format a system's name for a terminal: truncated, with control characters escaped."""
    return sanitize_text(name, max_length=_MAX_NAME_LENGTH)


def format_fraction(units: int | None, digits: int = 4) -> str:
    """Format a value in units of 10^-18 with a number of decimals.

    The value is truncated to `digits` decimals. None becomes a dash.
    """
    if units is None:
        return NO_VALUE
    sign = "-" if units < 0 else ""
    integer_part, fractional_part = divmod(abs(units), UNIT)
    return f"{sign}{integer_part}.{fractional_part:018d}"[
        : len(sign) + len(str(integer_part)) + 1 + digits
    ]


def format_exact_fraction(units: int | None) -> str | None:
    """Format a value in units of 10^-18 with all decimals, for JSON.

    None stays None.
    """
    if units is None:
        return None
    return f"-{format_decimal(-units)}" if units < 0 else format_decimal(units)


def format_percent(units: int | None, digits: int = 1) -> str:
    """Format a value in units of 10^-18 as a percentage.

    None becomes a dash.
    """
    return NO_VALUE if units is None else f"{format_fraction(100 * units, digits)} %"


def format_axis_time(seconds: int, span: int = _DAY_SECONDS) -> str:
    """Format a block time in UTC for a plot of `span` seconds.

    The precision suits the span.
    """
    time_format = (
        "%m-%d %H:%M:%S"
        if span < _MAX_SECONDS_SPAN
        else "%m-%d %H:%M"
        if span < 30 * _DAY_SECONDS
        else "%Y-%m-%d"
    )
    return format_utc(seconds, time_format)


def format_time_to_second(seconds: int) -> str:
    """Format a block time in UTC, precise to the second."""
    return format_utc(seconds, "%Y-%m-%d %H:%M:%S")


def format_duration(seconds: int) -> str:
    """Format a duration, for example `2 d 03:04:05`."""
    days, day_seconds = divmod(seconds, _DAY_SECONDS)
    clock_text = f"{day_seconds // 3600:02d}:{day_seconds // 60 % 60:02d}:{day_seconds % 60:02d}"
    return f"{days} d {clock_text}" if days else clock_text
