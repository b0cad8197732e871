"""The common parts of every page: the frame, number formats and browser policies.

Templates escape everything; none of them may disable that (tests/unit/daemon/pages).
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, pass_context
from jinja2.runtime import Context

from oracle.chain.hex_names import HexNameError, parse_address_prefix, parse_hash
from oracle.chain.profiles.profile import Token
from oracle.daemon.web.played_act import PlayedAct
from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import TaskKey
from oracle.queries.api.source import QuestionError
from oracle.queries.population import harmless
from oracle.queries.text.human_numbers import (
    amount,
    capital,
    counted,
    in_words,
    moment,
    ordinal,
    span,
)
from oracle.queries.text.templates import template_environment
from oracle.queries.text.text_tables import foreign, in_utc

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
NAVIGATION = (
    ("Network", "/"),
    ("Nodes", "/nodes"),
    ("Rounds", "/rounds"),
    ("Kickouts", "/kickouts"),
    ("Draws", "/draws"),
    ("Health", "/health"),
    ("Rules", "/rules"),
)
POLICY = "content-security-policy"
# Scripts, styles and images come from this server and are files, so that foreign text on a page
# would still not run.
HEADERS = {
    POLICY: (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
# A sign for each state, beside its text: colour is never the only mark.
STATE_SIGNS = {
    "selectable": "●",
    "recovering": "◐",
    "excluded": "▲",
    "kicked_out": "✕",
    "slashed": "✕",
    "paused": "‖",
    "quit": "‖",
    "unknown": "‖",
}
_FRACTION = re.compile(r"(\d+\.\d\d)\d{16}")
_SHOWN_OF_HASH = 6, 4
# Shown if there is no number.
NOTHING = "\N{EN DASH}"
_HASH_FROM = 20
_LONGEST_FIELD = 400


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The request of a page: the parts of its path by name, and its query fields.

    `act` is the current act of a demonstration; None: the network is real. `has_evidence`: the
    evidence of kickouts is on this host.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    act: PlayedAct | None = None
    has_evidence: bool = False

    def text(self, name: str, longest: int = _LONGEST_FIELD) -> str | None:
        """Return a field of the query, or None if it is empty.

        Raises:
            QuestionError: the field is too long.
        """
        told = self.query.get(name, "").strip()
        if len(told) > longest:
            raise QuestionError(f"{name}: is longer than {longest} signs")
        return told or None


def address_prefix(text: str) -> str:
    """Return an address prefix in lower case; the `0x` may be left out.

    Raises:
        QuestionError: `text` is not hex, too long, or a full address with a wrong checksum.
    """
    entered = text.strip()
    has_prefix = entered[:2].lower() == "0x"
    try:
        prefix = parse_address_prefix(entered if has_prefix else f"0x{entered}")
    except HexNameError as error:
        raise QuestionError(f"{foreign(entered)}: {error}") from error
    if prefix == "0x" and not has_prefix:
        raise QuestionError("address: nothing entered; expected 0x and up to 40 hex digits")
    return prefix


def task_key(text: str) -> TaskKey:
    """Return the key of a task in lower case. Raises QuestionError: not 0x and 64 hex digits."""
    try:
        return TaskKey(parse_hash(text.strip()))
    except HexNameError as error:
        raise QuestionError(f"{foreign(text)}: {error}") from error


def page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    """Render a template; a value that is missing is a bug and raises."""
    text = environment().get_template(template).render(**values)
    return HTMLResponse(text, status, headers={"cache-control": "no-cache"})


@cache
def environment() -> Environment:
    """Return the template environment, which escapes all values."""
    made = template_environment(FOLDER / "templates")
    made.globals.update(navigation=NAVIGATION, asset=asset, signs=STATE_SIGNS)
    made.filters.update(
        utc=moment,
        span=span,
        clock=lambda seconds: in_utc(seconds, "%H:%M"),
        day=lambda seconds: in_utc(seconds, "%d %b"),
        words=in_words,
        opened=capital,
        counted=counted,
        ordinal=ordinal,
        two=two_digits,
        short=shortened,
        amount=amount_text,
        state=state_words,
        shown=with_two_digits,
        harmless=harmless,
    )
    return made


@cache
def asset(name: str) -> str:
    """Return the URL of a static file; it contains the digest, so its content never changes."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{digest}/{name}"


def two_digits(value: str | int | None) -> str:
    """Format a fraction, given as text or in units of 10^-18, with two digits, rounded down.

    None is formatted as a dash.
    """
    if value is None:
        return NOTHING
    fraction = decimal_text(value) if isinstance(value, int) else value
    whole, _, rest = fraction.partition(".")
    return f"{whole}.{rest[:2]:0<2}"


def with_two_digits(text: str) -> str:
    """Return a text with its 18-digit fractions cut to two digits."""
    return _FRACTION.sub(r"\1", text)


@pass_context
def shortened(context: Context, hashed: str) -> str:
    """Return the label of an address, or the first and last digits of an address or hash."""
    label: str | None = context.get("labels", {}).get(hashed)
    if label is not None:
        return label
    first, last = _SHOWN_OF_HASH
    return hashed if len(hashed) < _HASH_FROM else f"{hashed[:first]}…{hashed[-last:]}"


@pass_context
def amount_text(context: Context, units: int | str) -> str:
    """Format an amount of the smallest unit in the network's token."""
    token: Token = context["token"]
    return amount(int(units), token.symbol, token.decimals)


def state_words(state: str) -> str:
    """Return the readable form of a state."""
    return state.replace("_", " ")
