"""The legacy system's time windows: which one a block time lies in, when it began (scoring.md 8).

A window is the calendar month in UTC, or a fixed number of seconds counted from the epoch; both
are numbered from 0 at 1970-01-01. Whole numbers throughout, no time zone, no library.
"""

from oracle.domain.scoring.legacy_rules import LegacyRules

_DAY_SECONDS = 86_400
# The Gregorian calendar repeats itself after 400 years.
_CYCLE_MONTHS, _CYCLE_DAYS = 4_800, 146_097
# Years are counted from a 1 March, so that the leap day is the last of its year: January 1970 is
# the eleventh month of year 1969.
_MONTHS_BEFORE_EPOCH = 1_969 * 12 + 10
_DAYS_BEFORE_EPOCH = 719_468


def window_of(time: int, legacy: LegacyRules) -> int:
    """Return the number of the window that a block time in seconds lies in."""
    if legacy.window_seconds is not None:
        return time // legacy.window_seconds
    days = time // _DAY_SECONDS
    # Never off by more than one, as months differ by three days only.
    month = days * _CYCLE_MONTHS // _CYCLE_DAYS
    while _first_day_of(month) > days:
        month -= 1
    while _first_day_of(month + 1) <= days:
        month += 1
    return month


def start_of(window: int, legacy: LegacyRules) -> int:
    """Return the block time in seconds at which a window began."""
    if legacy.window_seconds is not None:
        return window * legacy.window_seconds
    return _first_day_of(window) * _DAY_SECONDS


def _first_day_of(month: int) -> int:
    """Return the days from 1970-01-01 to the first of a month, counted from January 1970."""
    year, place = divmod(month + _MONTHS_BEFORE_EPOCH, 12)
    days = 365 * year + year // 4 - year // 100 + year // 400
    # From March on, months have 31, 30, 31, 30, 31 days, again and again.
    return days + (153 * place + 2) // 5 - _DAYS_BEFORE_EPOCH
