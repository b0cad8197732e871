"""Parses request bodies of a gateway strictly; an error names the row and the field.

See docs/how-to/run-a-gateway.md#http-api.
"""

from typing import Annotated, Any, TypeVar

import msgspec

from gateway.gateway_records import ToldOutcome
from oracle.domain.ids import Address
from oracle.systems.pocket.relay_outcomes import BLAME, Blame, OutcomeKind, RelayOutcome

MOST_ROWS = 1_000
MOST_CANDIDATES = 100
# The largest time since 1970; no clock exceeds it, and every database accepts it.
_MOST_MS = 2**53
_HOUR_MS = 3_600_000.0
_KINDS = {kind.value: kind for kind in OutcomeKind}

# Printable ASCII without blanks, which databases store and logs show unchanged.
Name = Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{1,128}\Z")]
NameOrNone = Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{0,128}\Z")]
Time = Annotated[int, msgspec.Meta(ge=0, le=_MOST_MS)]
Latency = Annotated[float, msgspec.Meta(ge=0, le=_HOUR_MS)]
Names = Annotated[list[Name], msgspec.Meta(max_length=MOST_CANDIDATES)]

T = TypeVar("T")


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    """A request body; unknown fields are rejected."""


class OutcomeRow(_Body, kw_only=True):
    node: Name
    chain: Name
    session: NameOrNone = ""
    t_ms: Time
    ok: bool
    latency_ms: Latency | None = None
    kind: str | None = None
    id: Name | None = None


class OutcomesBody(_Body):
    outcomes: Annotated[list[OutcomeRow], msgspec.Meta(max_length=MOST_ROWS)]


class RankingBody(_Body, kw_only=True):
    chain: Name
    session: Name
    candidates: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MOST_CANDIDATES)]


class SelectBody(RankingBody, kw_only=True):
    n: Annotated[int, msgspec.Meta(ge=1, le=MOST_CANDIDATES)] = 1
    exclude: Names = []
    explain: bool = False
    prove: bool = False


class BodyError(Exception):
    """A body that cannot be accepted; `row` counts from 0, None: the error is not in a row."""

    def __init__(self, words: str, *, row: int | None = None, field: str | None = None) -> None:
        super().__init__(words)
        self.row = row
        self.field = field

    def answer(self) -> dict[str, object]:
        """Return the error response."""
        told = {"error": str(self), "row": self.row, "field": self.field}
        return {name: value for name, value in told.items() if value is not None}


_OUTCOMES = msgspec.json.Decoder(OutcomesBody)
_SELECT = msgspec.json.Decoder(SelectBody)
_RANKING = msgspec.json.Decoder(RankingBody)


def outcomes_in(body: bytes, now: int, ahead_ms: int) -> list[ToldOutcome]:
    """Parse a batch; one invalid row rejects all of it.

    Raises:
        BodyError: names the row and the field.
    """
    rows = _read(_OUTCOMES, body).outcomes
    latest = now + ahead_ms
    return [_outcome(number, row, latest) for number, row in enumerate(rows)]


def selection_in(body: bytes) -> SelectBody:
    """Parse the body of `/v1/select`. Raises BodyError."""
    return _checked(_read(_SELECT, body))


def ranking_in(body: bytes) -> RankingBody:
    """Parse the body of `/v1/rankings`. Raises BodyError."""
    return _checked(_read(_RANKING, body))


_Asked = TypeVar("_Asked", bound=RankingBody)


def _checked(asked: _Asked) -> _Asked:
    if len(set(asked.candidates)) < len(asked.candidates):
        raise BodyError("a candidate stands there twice", field="candidates")
    return asked


def _outcome(number: int, row: OutcomeRow, latest: int) -> ToldOutcome:
    if row.t_ms > latest:
        raise BodyError("is ahead of the clock here", row=number, field="t_ms")
    kind = row.kind
    if kind is None:
        if not row.ok:
            raise BodyError("is wanted where ok is false", row=number, field="kind")
        kind = "ok"
    word = _KINDS.get(kind)
    if word is None:
        raise BodyError(f"is none of: {', '.join(_KINDS)}", row=number, field="kind")
    is_success = BLAME[word] is Blame.SUCCESS
    if row.ok is not is_success:
        raise BodyError(f"does not go with kind {kind}", row=number, field="ok")
    if is_success and row.latency_ms is None:
        raise BodyError("is wanted of a success", row=number, field="latency_ms")
    latency = row.latency_ms if is_success and row.latency_ms is not None else 0.0
    outcome = RelayOutcome(Address(row.node), row.chain, row.t_ms, word, latency)
    return ToldOutcome(outcome, row.session, row.id)


def _read(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        # msgspec's message names the place, too; the fields added here are for programs.
        raise _fault(decoder.type, body, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BodyError("is no JSON") from None


def _fault(shape: Any, body: bytes, words: str) -> BodyError:  # noqa: ANN401  a type
    """Locate the error: the row, if there are rows, and the field."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return BodyError("is no JSON")
    rows = told.get("outcomes") if isinstance(told, dict) else None
    if shape is OutcomesBody and isinstance(rows, list) and len(rows) <= MOST_ROWS:
        for number, row in enumerate(rows):
            if not _is(row, OutcomeRow):
                return BodyError(words, row=number, field=_field(row, OutcomeRow))
    return BodyError(words, field=_field(told, shape))


def _field(told: object, shape: Any) -> str | None:  # noqa: ANN401  a type
    if not isinstance(told, dict):
        return None
    fields = {one.encode_name: one for one in msgspec.structs.fields(shape)}
    unknown = [name for name in told if name not in fields]
    lacking = [name for name, one in fields.items() if one.required and name not in told]
    wrong = [
        name for name, one in fields.items() if name in told and not _is(told[name], one.type)
    ]
    return next(iter([*unknown, *lacking, *wrong]), None)


def _is(told: object, shape: Any) -> bool:  # noqa: ANN401  a type
    try:
        msgspec.convert(told, shape)
    except msgspec.ValidationError:
        return False
    return True
