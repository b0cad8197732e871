"""`queue`: which tasks wait, in which order, and what a node would take. Only reads."""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, NamedTuple

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, print_answer
from oracle.cli.select.queue_tables import show_queue
from oracle.cli.system_options import (
    AtOption,
    EventsOption,
    InputSource,
    PolicyOption,
    chosen_for_queue,
    pairs_of,
    source_of,
)
from oracle.domain.events.network_events import TaskKind
from oracle.errors import InputError
from oracle.queries.selection.network_snapshot import SnapshotQuery
from oracle.queries.selection.queue_view import QueueQuery, queue_answer
from oracle.queries.text.prefixes import address_among
from oracle.queries.text.text_tables import foreign
from oracle.systems.crynux.pricing import Pricing

_EXAMPLE = "Example: qos-oracle queue --node 0x… --alpha 2 --json"
_DECIMAL = re.compile(r"\d{1,18}(\.\d{1,18})?", re.ASCII)

_NodeOption = Annotated[
    str | None, typer.Option("--node", metavar="ADDRESS", help="Say what this node would take.")
]
_FixedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fixed",
        metavar="KIND=SECONDS",
        help=f"What a task of a kind ({', '.join(TaskKind)}) takes whatever its size; may be "
        "given again. Default: dispatch.fixed_seconds.",
    ),
]
_UnitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--unit",
        metavar="KIND=SECONDS",
        help="What each unit of its size adds. Default: dispatch.unit_seconds.",
    ),
]
_AlphaOption = Annotated[
    str | None,
    typer.Option(
        "--alpha",
        metavar="A",
        help="Say what is dropped where A tasks a member may wait. Default: dispatch.queue_alpha.",
    ),
]


class _Numbers(NamedTuple):
    """What tasks take in seconds, by kind, and how many may wait for each member."""

    fixed: Mapping[str, Fraction]
    unit: Mapping[str, Fraction]
    alpha: Fraction | None


def register(app: typer.Typer) -> None:
    """Put `queue` on the command line."""
    app.command("queue", epilog=_EXAMPLE)(queue)


def queue(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    node: _NodeOption = None,
    policy: PolicyOption = None,
    fixed: _FixedOption = None,
    unit: _UnitOption = None,
    alpha: _AlphaOption = None,
    at: AtOption = None,
    events: EventsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the tasks that wait, by group and value, and what a node would take.

    A task waits from its creation until it starts or ends. Its value is its fee over the seconds
    that it is estimated to take; nobody publishes those, so they stand in [dispatch], or in
    --fixed and --unit. `draws` lists who is drawn.
    """
    written = _Numbers(_seconds("--fixed", fixed), _seconds("--unit", unit), _alpha(alpha))
    with source_of(events, config) as source:
        choice = chosen_for_queue(policy, source)
        numbers = _with_settings(written, source)
        pricing = _pricing(numbers)
        snapshot = source.snapshot(SnapshotQuery(choice.rules, at))
    address = None if node is None else address_among([*snapshot.nodes], "node", node)
    answer = queue_answer(snapshot, QueueQuery(choice.policy, pricing, numbers.alpha, address))
    if as_json:
        print_answer(answer)
    else:
        show_queue(answer)


def _seconds(option: str, written: list[str] | None) -> dict[str, Fraction]:
    found = pairs_of(option, written)
    for kind in found:
        if kind not in set(TaskKind):
            known = ", ".join(TaskKind)
            raise InputError(f"{option} {foreign(kind)}: there is no such kind (there is {known})")
    return {kind: _number(f"{option} {kind}", text) for kind, text in found.items()}


def _alpha(written: str | None) -> Fraction | None:
    if written is None:
        return None
    alpha = _number("--alpha", written)
    if not alpha:
        raise InputError("--alpha 0: must be above 0")
    return alpha


def _number(said: str, text: str) -> Fraction:
    if _DECIMAL.fullmatch(text) is None:
        raise InputError(f"{said} {foreign(text)}: must be a decimal, such as 2.5")
    return Fraction(text)


def _with_settings(written: _Numbers, source: InputSource) -> _Numbers:
    """What is not written on the command line stands in the settings, or nowhere."""
    if source.config is None:
        return written
    told = source.config.dispatch
    fixed: dict[str, Fraction] = {k: Fraction(s) for k, s in (told.fixed_seconds or {}).items()}
    unit: dict[str, Fraction] = {k: Fraction(s) for k, s in (told.unit_seconds or {}).items()}
    alpha = None if told.queue_alpha is None else Fraction(told.queue_alpha)
    return _Numbers({**fixed, **written.fixed}, {**unit, **written.unit}, written.alpha or alpha)


def _pricing(numbers: _Numbers) -> Pricing:
    missing = [
        f"{option} {kind}=SECONDS"
        for option, known in (("--fixed", numbers.fixed), ("--unit", numbers.unit))
        for kind in TaskKind
        if kind not in known
    ]
    if missing:
        raise InputError(
            "a task's value is its fee over the seconds it takes, and nobody said those: set "
            f"dispatch.fixed_seconds and dispatch.unit_seconds, or give {', '.join(missing)}"
        )
    return Pricing(
        {kind: numbers.fixed[kind] for kind in TaskKind},
        {kind: numbers.unit[kind] for kind in TaskKind},
    )
