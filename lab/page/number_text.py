"""How fractions, times and addresses are written on the lab's pages and in its tables."""

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.text.text_tables import format_utc

# Where there is no number.
NOTHING = "-"
_SHOWN_ENDS = 6
# A plot of fewer seconds writes its times with seconds.
_LONG = 3 * 3600
_DAY = 86_400


def short_address(node: Address) -> str:
    """Return the first and the last digits of an address."""
    return f"{node[: 2 + _SHOWN_ENDS]}…{node[-4:]}"


def fraction(units: int | None, digits: int = 4) -> str:
    """Write units of 10^-18, cut to so many digits; None is written as a dash."""
    if units is None:
        return NOTHING
    sign = "-" if units < 0 else ""
    whole, part = divmod(abs(units), UNIT)
    return f"{sign}{whole}.{part:018d}"[: len(sign) + len(str(whole)) + 1 + digits]


def percent(units: int | None, digits: int = 1) -> str:
    """Write units of 10^-18 as percent, cut to so many digits; None is written as a dash."""
    return NOTHING if units is None else f"{fraction(100 * units, digits)} %"


def moment(seconds: int, span: int = _DAY) -> str:
    """Write a block time in UTC, as precise as a plot of `span` seconds needs it."""
    form = "%m-%d %H:%M:%S" if span < _LONG else "%m-%d %H:%M" if span < 30 * _DAY else "%Y-%m-%d"
    return format_utc(seconds, form)


def whole_moment(seconds: int) -> str:
    """Write a block time in UTC, to the second."""
    return format_utc(seconds, "%Y-%m-%d %H:%M:%S")


def lasting(seconds: int) -> str:
    """Write a length of time: `2 d 03:04:05`."""
    days, rest = divmod(seconds, _DAY)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days} d {clock}" if days else clock
