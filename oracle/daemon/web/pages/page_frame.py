"""The parts shared by all pages: frame, status line, number formats, headers, static files.

Templates escape all values, and no template may disable this (tests/unit/daemon/pages).
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from oracle.chain.hex_names import HexNameError, parse_address_prefix, parse_hash
from oracle.chain.profiles.profile import Token
from oracle.daemon.web.answer_cache import CACHE_FOREVER
from oracle.daemon.web.demo_phase import DemoPhase
from oracle.domain.blocks import format_block_count
from oracle.domain.fixed_point import format_decimal
from oracle.domain.health import Condition, HealthReport, Severity
from oracle.domain.ids import TaskKey
from oracle.domain.reports.lanes import decode_qos
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.queries.answers import AsOf
from oracle.queries.api.records.event_feed import EVENT_KINDS
from oracle.queries.api.source import ApiSnapshot, RequestError
from oracle.queries.population import sanitize_name
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_amount,
    format_count,
    format_duration,
    format_number_in_words,
    format_ordinal,
    format_percent,
    format_time,
)
from oracle.queries.text.reliability_decreases import format_decrease_counts
from oracle.queries.text.templates import create_template_environment
from oracle.queries.text.text_tables import format_utc, sanitize_text

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
NAVIGATION = (
    ("Network", "/"),
    ("Nodes", "/nodes"),
    ("Rounds", "/rounds"),
    ("Kickouts", "/kickouts"),
    ("Objections", "/objections"),
    ("Draws", "/draws"),
    ("Health", "/health"),
    ("Rules", "/rules"),
)
POLICY = "content-security-policy"
# Only scripts, styles and images from this server are permitted, so that text injected into a page
# cannot run as a script.
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
# These signs are shown in addition to the colour of a state, for readers who cannot distinguish
# colours.
STATE_SIGNS = {
    "selectable": "●",
    "recovering": "◐",
    "excluded": "▲",
    "accused": "✕",
    "expelled": "✕",
    "kickout_due": "✕",
    "kickout_blocked": "‖",
    "kicked_out": "✕",
    "slashed": "✕",
    "paused": "‖",
    "quit": "‖",
    "unknown": "‖",
}
_FRACTION = re.compile(r"(\d+\.\d\d)\d{16}")
_SHOWN_HASH_DIGITS = 6, 4
# This dash is shown in place of a missing number.
NO_NUMBER = "\N{EN DASH}"
_MIN_HASH_LENGTH = 20
_MAX_FIELD_LENGTH = 400
_MAX_ROUND_DIGITS = 18
_TONES = {Severity.WELL: "good", Severity.ATTENTION: "late", Severity.DOWN: "bad"}
_MEDIA_TYPE_BY_SUFFIX = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

TText = TypeVar("TText", bound=str)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page request: its path parameters by name, and its query fields.

    `phase` is the current phase of a demonstration, or None if the network is real. `has_evidence`
    is whether the evidence of kickouts is on this host.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    phase: DemoPhase | None = None
    has_evidence: bool = False

    def get_query_field(self, name: str, max_length: int = _MAX_FIELD_LENGTH) -> str | None:
        """Return a query parameter, or None if it is empty.

        Raises:
            RequestError: the field is too long.
        """
        value = self.query.get(name, "").strip()
        if len(value) > max_length:
            raise RequestError(
                f"{name}: the value is too long; expected at most {max_length} characters"
            )
        return value or None

    def get_query_choice(self, name: str, choices: Collection[TText]) -> TText | None:
        """Return a query parameter that must be one of `choices`, or None if it is empty.

        Raises:
            RequestError: the field has another value.
        """
        value = self.get_query_field(name)
        choice = next((choice for choice in choices if choice == value), None)
        if value is not None and choice is None:
            raise RequestError(f"{name}: expected one of {', '.join(choices)}")
        return choice


def parse_node_prefix(text: str) -> str:
    """Parse an address prefix to lower case; the `0x` may be left out.

    Raises:
        RequestError: `text` is not hex, too long, or a full address with a wrong checksum.
    """
    entered_prefix = text.strip()
    has_prefix = entered_prefix[:2].lower() == "0x"
    try:
        prefix = parse_address_prefix(entered_prefix if has_prefix else f"0x{entered_prefix}")
    except HexNameError as error:
        raise RequestError(f"{sanitize_text(entered_prefix)}: {error}") from error
    if prefix == "0x" and not has_prefix:
        raise RequestError("address: no digits were entered; expected 0x and up to 40 hex digits")
    return prefix


def parse_task_key(text: str) -> TaskKey:
    """Parse a task key to lower case; raise RequestError if it is not a valid hash."""
    try:
        return TaskKey(parse_hash(text.strip()))
    except HexNameError as error:
        raise RequestError(f"{sanitize_text(text)}: {error}") from error


def parse_round_number(text: str) -> int:
    """Parse a round number; raise RequestError if it is not a number."""
    if not text.isdecimal() or len(text) > _MAX_ROUND_DIGITS:
        raise RequestError("round: expected a number")
    return int(text)


def render_template(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    """Render a template, raising an error for a missing value."""
    page_html = get_template_environment().get_template(template).render(**values)
    return HTMLResponse(page_html, status, headers={"cache-control": "no-cache"})


@cache
def get_template_environment() -> Environment:
    """Return the template environment, which escapes all values."""
    jinja_environment = create_template_environment(FOLDER / "templates")
    jinja_environment.globals.update(
        navigation=NAVIGATION,
        asset=get_asset_url,
        signs=STATE_SIGNS,
        event_kinds=",".join(EVENT_KINDS),
    )
    jinja_environment.filters.update(
        utc=format_time_element,
        rfc3339=format_rfc3339,
        span=format_duration,
        clock=lambda seconds: format_utc(seconds, "%H:%M"),
        utc_as=format_utc,
        weekday=lambda seconds: format_utc(seconds, "%a %d %b"),
        words=format_number_in_words,
        opened=capitalize_first,
        counted=format_count,
        decrease_counts=lambda marks: format_decrease_counts(
            ReliabilityCause(mark.cause) for mark in marks
        ),
        ordinal=format_ordinal,
        two=format_two_digits,
        four=lambda fraction: format_fraction(fraction, 4),
        lane=lambda lane: format_two_digits(decode_qos(lane)),
        percent=format_percent,
        signed=format_signed_amount,
        short=shorten_hash,
        amount=format_token_amount,
        state=format_node_state,
        shown=shorten_fractions,
        harmless=sanitize_name,
        printable=lambda text: sanitize_text(text, _MAX_FIELD_LENGTH),
    )
    return jinja_environment


def format_rfc3339(unix_time: int) -> str:
    """Format a time in UTC as RFC 3339, for HTML and Atom."""
    return format_utc(unix_time, "%Y-%m-%dT%H:%M:%SZ")


def format_time_element(unix_time: int) -> Markup:
    """Format a block time as an HTML element that a script converts to the reader's time zone."""
    return Markup('<time datetime="{}">{}</time>').format(
        format_rfc3339(unix_time), format_time(unix_time)
    )


@cache
def get_asset_url(name: str) -> str:
    """Return the URL of a static file, including a digest of its content."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{digest}/{name}"


def format_two_digits(value: str | int | None) -> str:
    """Format a fraction with two decimals, rounded down."""
    return format_fraction(value, 2)


def format_fraction(value: str | int | None, digits: int) -> str:
    """Format a fraction, given as text or in units of 10^-18, rounded down to `digits` decimals.

    None is formatted as a dash.
    """
    if value is None:
        return NO_NUMBER
    decimal_text = format_decimal(value) if isinstance(value, int) else value
    integer_part, _, decimals = decimal_text.partition(".")
    return f"{integer_part}.{decimals[:digits]:0<{digits}}"


def format_signed_amount(units: int) -> str:
    """Format a gain or loss in units of 10^-18 with its sign and two decimals."""
    sign = "\N{MINUS SIGN}" if units < 0 else "+"
    return f"{sign}{format_two_digits(abs(units))}"


def shorten_fractions(text: str) -> str:
    """Shorten the 18-digit fractions in a text to two digits."""
    return _FRACTION.sub(r"\1", text)


@pass_context
def shorten_hash(context: Context, address_or_hash: str) -> str:
    """Return an address's label, or the first and last digits of an address or hash."""
    label: str | None = context.get("labels", {}).get(address_or_hash)
    if label is not None:
        return label
    first_digits, last_digits = _SHOWN_HASH_DIGITS
    if len(address_or_hash) < _MIN_HASH_LENGTH:
        return address_or_hash
    return f"{address_or_hash[:first_digits]}…{address_or_hash[-last_digits:]}"


@pass_context
def format_token_amount(context: Context, units: int | str) -> str:
    """Format an amount given in the smallest unit as an amount of the network's token."""
    token: Token = context["token"]
    return format_amount(int(units), token.symbol, token.decimals)


def format_node_state(state: str) -> str:
    """Return the readable form of a state."""
    return state.replace("_", " ")


class StatusLine(NamedTuple):
    """A status text; `tone` (good, late or bad) determines the sign and colour next to it."""

    tone: str
    words: str


UNAVAILABLE = StatusLine("late", "No data loaded")


def build_status_line(as_of: AsOf, health: HealthReport) -> StatusLine:
    """Return the worst health condition in a few words.

    Without any condition, the text is "Synced" or "Indexed".
    """
    worst_condition, lag_blocks = health.worst_condition, as_of.lag_blocks
    status_tone = _TONES[health.severity]
    if worst_condition is None:
        return StatusLine(status_tone, "Synced" if lag_blocks is not None else "Indexed")
    if worst_condition is Condition.BEHIND and lag_blocks is not None:
        return StatusLine(status_tone, f"Catching up, {format_block_count(lag_blocks)} left")
    if worst_condition is Condition.NO_LEADER:
        return StatusLine(
            status_tone, f"{worst_condition.title}, so these figures are not updated"
        )
    return StatusLine(status_tone, worst_condition.title)


def build_frame_values(
    snapshot: ApiSnapshot, current_entry: str | None, json_path: str | None = None
) -> dict[str, Any]:
    """Build the template values of the page frame.

    `current_entry` is the current entry of the navigation.
    """
    return {
        "here": current_entry,
        "as_of": snapshot.as_of,
        "standing": build_status_line(snapshot.as_of, snapshot.load_health_report()),
        "json_path": json_path,
        "token": snapshot.source.token,
        "labels": snapshot.source.labels,
        "explorer": snapshot.source.explorer,
    }


@cache
def _list_static_file_names() -> frozenset[str]:
    """Return the names of the static files to serve, without licences and lists."""
    paths = (path for path in STATIC.rglob("*") if path.suffix in _MEDIA_TYPE_BY_SUFFIX)
    return frozenset(path.relative_to(STATIC).as_posix() for path in paths)


def get_static_file_response(digest: str, name: str) -> Response | None:
    """Return a static file as a response, or None if its name or digest does not match."""
    if name not in _list_static_file_names() or get_asset_url(name) != f"/static/{digest}/{name}":
        return None
    file_path = STATIC / name
    return Response(
        file_path.read_bytes(),
        media_type=_MEDIA_TYPE_BY_SUFFIX[file_path.suffix],
        headers={"cache-control": CACHE_FOREVER},
    )
