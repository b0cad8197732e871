"""Formats fractions, times and addresses for the lab's pages and tables."""

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.text.text_tables import format_utc

# Written instead of a missing number.
NOTHING = "-"
_SHOWN_ENDS = 6
# Plots of shorter spans show times with seconds.
_LONG = 3 * 3600
_DAY = 86_400


def short_address(node: Address) -> str:
    """Return the first and the last digits of an address."""
    return f"{node[: 2 + _SHOWN_ENDS]}…{node[-4:]}"


def fraction(units: int | None, digits: int = 4) -> str:
    """Format units of 10^-18, truncated to some digits; None becomes a dash."""
    if units is None:
        return NOTHING
    sign = "-" if units < 0 else ""
    whole, part = divmod(abs(units), UNIT)
    return f"{sign}{whole}.{part:018d}"[: len(sign) + len(str(whole)) + 1 + digits]


def percent(units: int | None, digits: int = 1) -> str:
    """Format units of 10^-18 as percent, truncated to some digits; None becomes a dash."""
    return NOTHING if units is None else f"{fraction(100 * units, digits)} %"


def moment(seconds: int, span: int = _DAY) -> str:
    """Format a block time in UTC, with the precision of a plot of `span` seconds."""
    form = "%m-%d %H:%M:%S" if span < _LONG else "%m-%d %H:%M" if span < 30 * _DAY else "%Y-%m-%d"
    return format_utc(seconds, form)


def whole_moment(seconds: int) -> str:
    """Format a block time in UTC, to the second."""
    return format_utc(seconds, "%Y-%m-%d %H:%M:%S")


def lasting(seconds: int) -> str:
    """Format a duration, for example `2 d 03:04:05`."""
    days, rest = divmod(seconds, _DAY)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days} d {clock}" if days else clock
