"""Formats contract values for readers: dates, durations, shares; `--json` has the raw values."""

from collections.abc import Callable, Iterator, Mapping

from oracle.cli.options import print_answer
from oracle.domain.ids import ZERO_ADDRESS
from oracle.queries.answers import ApiModel
from oracle.queries.text.human_numbers import format_duration
from oracle.queries.text.text_tables import format_utc, print_facts

# Name suffixes of unix timestamps, and of durations in seconds.
_TIME_SUFFIXES = ("_at", "paused_until")
_SPAN_SUFFIXES = (
    *("_seconds", "_delay", "_interval", "_cooldown"),
    *("kick_window", "bucket_frame"),
)
# Durations from this many seconds on are shown in larger units.
_MIN_SPAN_SECONDS = 90
# The largest 40-bit number of seconds means forever.
_FOREVER_SECONDS = 2**40 - 1
_SCORE_STEPS = 10_000


def _format_qos(steps: int) -> str:
    return f"QoS {steps / _SCORE_STEPS:.4f}"


def _format_share(parts: int) -> str:
    return f"{parts / _SCORE_STEPS:.2%} of the nodes"


# Formatters by field name; contracts/oracle/Limits.sol defines the meanings.
_FORMATTER_BY_NAME: Mapping[str, Callable[[int], str]] = {
    "kick_below": _format_qos,
    "big_fall": _format_qos,
    "fall_share": _format_share,
    "anchor_window": "{} blocks".format,
    "kick_gas": "{:,} gas".format,
}


def print_contract_answer(answer: ApiModel, *, as_json: bool) -> None:
    """Print a result as JSON, or as text without the empty values."""
    if as_json:
        print_answer(answer)
    else:
        print_values(answer.model_dump(exclude_none=True))


def print_values(values: Mapping[str, object]) -> None:
    """Print values as text; nested values have dotted names."""
    value_by_name = dict(_flatten_values(values))
    width = max(map(len, value_by_name)) + 2
    print_facts(
        (
            (name.replace("_", " "), format_value(name, value))
            for name, value in value_by_name.items()
        ),
        width,
    )


def format_value(name: str, value: object) -> str:
    """Return a value as text, formatted by its field name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _format_number(name.rpartition(".")[2], value)
    if value == ZERO_ADDRESS:
        return "nobody"
    return "-" if value in {None, ""} else str(value)


def _format_number(name: str, value: int) -> str:
    if name.endswith(_TIME_SUFFIXES):
        return f"{format_utc(value, '%Y-%m-%d %H:%M:%S UTC')} ({value})" if value else "never"
    if name.endswith(_SPAN_SUFFIXES):
        if value == _FOREVER_SECONDS:
            return "forever"
        return (
            f"{format_duration(value)} ({value} s)" if value >= _MIN_SPAN_SECONDS else f"{value} s"
        )
    formatter = _FORMATTER_BY_NAME.get(name)
    return str(value) if formatter is None else formatter(value)


def _flatten_values(
    values: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    """Yield nested values under their dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten_values(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            yield prefix + name, ", ".join(str(item) for item in value)
        else:
            yield prefix + name, value
