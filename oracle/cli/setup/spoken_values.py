"""Readable forms of contract values: dates, time spans, shares; `--json` has raw values."""

from collections.abc import Callable, Iterator, Mapping

from oracle.cli.options import print_answer
from oracle.domain.ids import ZERO_ADDRESS
from oracle.queries.answers import ApiModel
from oracle.queries.text.human_numbers import span
from oracle.queries.text.text_tables import in_utc, print_facts

# Name suffixes of unix timestamps, and of durations in seconds.
_MOMENTS = ("_at", "paused_until")
_SPANS = (
    *("_seconds", "_delay", "_interval", "_cooldown"),
    *("kick_window", "bucket_frame"),
)
# Durations from this many seconds on are shown in larger units.
_LONG = 90
# The largest 40-bit number of seconds stands for "for ever".
_FOR_EVER = 2**40 - 1
_STEPS = 10_000


def _qos(steps: int) -> str:
    return f"QoS {steps / _STEPS:.4f}"


def _share(parts: int) -> str:
    return f"{parts / _STEPS:.2%} of the nodes"


# Formatters by field name; contracts/oracle/Limits.sol defines the meanings.
_COUNTS: Mapping[str, Callable[[int], str]] = {
    "kick_below": _qos,
    "big_fall": _qos,
    "fall_share": _share,
    "anchor_window": "{} blocks".format,
    "kick_gas": "{:,} gas".format,
}


def tell(answer: ApiModel, *, as_json: bool) -> None:
    """Print an answer; the text form omits empty values."""
    if as_json:
        print_answer(answer)
    else:
        print_values(answer.model_dump(exclude_none=True))


def print_values(values: Mapping[str, object]) -> None:
    """Print values as text; nested values have dotted names."""
    shown = dict(_flat(values))
    width = max(map(len, shown)) + 2
    print_facts(((name.replace("_", " "), said(name, v)) for name, v in shown.items()), width)


def said(name: str, value: object) -> str:
    """Return a value as text, formatted by its field name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _of_number(name.rpartition(".")[2], value)
    if value == ZERO_ADDRESS:
        return "nobody"
    return "-" if value in {None, ""} else str(value)


def _of_number(name: str, value: int) -> str:
    if name.endswith(_MOMENTS):
        return f"{in_utc(value, '%Y-%m-%d %H:%M:%S UTC')} ({value})" if value else "never"
    if name.endswith(_SPANS):
        if value == _FOR_EVER:
            return "for ever"
        return f"{span(value)} ({value} s)" if value >= _LONG else f"{value} s"
    count = _COUNTS.get(name)
    return str(value) if count is None else count(value)


def _flat(answer: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Yield nested values under their dotted names."""
    for name, value in answer.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        elif isinstance(value, (list, tuple)):
            yield above + name, ", ".join(str(one) for one in value)
        else:
            yield above + name, value
