"""Parses a gateway's request bodies strictly.

An error names the row and the field. See docs/how-to/run-a-gateway.md#http-api.
"""

from typing import Annotated, Any, TypeVar

import msgspec

from gateway.gateway_records import ReportedOutcome
from oracle.domain.ids import Address
from oracle.systems.pocket.relay_outcomes import BLAME_BY_KIND, Blame, OutcomeKind, RelayOutcome

MAX_ROWS = 1_000
MAX_CANDIDATES = 100
# The latest time, in milliseconds since 1970, that every database can store.
_MAX_UNIX_MS = 2**53
_HOUR_MS = 3_600_000.0
_KINDS = {kind.value: kind for kind in OutcomeKind}

# Printable ASCII without blanks. Every database stores it unchanged, and logs show it unchanged.
Name = Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{1,128}\Z")]
NameOrNone = Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{0,128}\Z")]
Time = Annotated[int, msgspec.Meta(ge=0, le=_MAX_UNIX_MS)]
Latency = Annotated[float, msgspec.Meta(ge=0, le=_HOUR_MS)]
Names = Annotated[list[Name], msgspec.Meta(max_length=MAX_CANDIDATES)]

T = TypeVar("T")


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    """A request body.

    Unknown fields are rejected.
    """


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
    outcomes: Annotated[list[OutcomeRow], msgspec.Meta(max_length=MAX_ROWS)]


class RankingBody(_Body, kw_only=True):
    chain: Name
    session: Name
    candidates: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MAX_CANDIDATES)]


class SelectBody(RankingBody, kw_only=True):
    n: Annotated[int, msgspec.Meta(ge=1, le=MAX_CANDIDATES)] = 1
    exclude: Names = []
    explain: bool = False
    prove: bool = False


class BodyError(Exception):
    """An invalid request body.

    `row` counts from 0, and is None if the error is not in a row.
    """

    def __init__(self, message: str, *, row: int | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.field = field

    def build_payload(self) -> dict[str, object]:
        field_values = {"error": str(self), "row": self.row, "field": self.field}
        return {name: value for name, value in field_values.items() if value is not None}


_OUTCOMES = msgspec.json.Decoder(OutcomesBody)
_SELECT = msgspec.json.Decoder(SelectBody)
_RANKING = msgspec.json.Decoder(RankingBody)


def parse_outcomes(body: bytes, now_ms: int, ahead_ms: int) -> list[ReportedOutcome]:
    """Parse a batch of outcomes.

    A single invalid row makes the whole batch invalid.

    Raises:
        BodyError: the batch is invalid; the error names the row and the field.
    """
    outcome_rows = _decode_body(_OUTCOMES, body).outcomes
    max_time_ms = now_ms + ahead_ms
    return [
        _parse_outcome_row(number, row, max_time_ms) for number, row in enumerate(outcome_rows)
    ]


def parse_select_body(body: bytes) -> SelectBody:
    """Parse the body of `/v1/select`.

    Raises:
        BodyError: the body is invalid.
    """
    return _reject_duplicate_candidates(_decode_body(_SELECT, body))


def parse_ranking_body(body: bytes) -> RankingBody:
    """Parse the body of `/v1/rankings`.

    Raises:
        BodyError: the body is invalid.
    """
    return _reject_duplicate_candidates(_decode_body(_RANKING, body))


_RankingBodyT = TypeVar("_RankingBodyT", bound=RankingBody)


def _reject_duplicate_candidates(body: _RankingBodyT) -> _RankingBodyT:
    if len(set(body.candidates)) < len(body.candidates):
        raise BodyError("a candidate is listed twice", field="candidates")
    return body


def _parse_outcome_row(row_number: int, row: OutcomeRow, max_time_ms: int) -> ReportedOutcome:
    if row.t_ms > max_time_ms:
        raise BodyError(
            "the time is too far ahead of the service's clock", row=row_number, field="t_ms"
        )
    kind = row.kind
    if kind is None:
        if not row.ok:
            raise BodyError("kind is required if ok is false", row=row_number, field="kind")
        kind = "ok"
    outcome_kind = _KINDS.get(kind)
    if outcome_kind is None:
        expected_kinds_text = ", ".join(_KINDS)
        raise BodyError(
            f"unknown kind; expected one of: {expected_kinds_text}", row=row_number, field="kind"
        )
    is_success = BLAME_BY_KIND[outcome_kind] is Blame.SUCCESS
    if row.ok is not is_success:
        raise BodyError(f"ok contradicts kind {kind}", row=row_number, field="ok")
    if is_success and row.latency_ms is None:
        raise BodyError("latency_ms is required for a success", row=row_number, field="latency_ms")
    latency = row.latency_ms if is_success and row.latency_ms is not None else 0.0
    outcome = RelayOutcome(Address(row.node), row.chain, row.t_ms, outcome_kind, latency)
    return ReportedOutcome(outcome, row.session, row.id)


def _decode_body(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        # msgspec's message also names the place, but programs need it in separate fields.
        raise _build_located_error(decoder.type, body, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BodyError("the request body is not valid JSON") from None


def _build_located_error(body_type: Any, body: bytes, message: str) -> BodyError:  # noqa: ANN401  a type
    """Build an error that names the invalid field, and its row if the body has rows."""
    try:
        decoded_body = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return BodyError("the request body is not valid JSON")
    outcome_rows = decoded_body.get("outcomes") if isinstance(decoded_body, dict) else None
    if (
        body_type is OutcomesBody
        and isinstance(outcome_rows, list)
        and len(outcome_rows) <= MAX_ROWS
    ):
        for number, row in enumerate(outcome_rows):
            if not _is_valid(row, OutcomeRow):
                return BodyError(message, row=number, field=_find_faulty_field(row, OutcomeRow))
    return BodyError(message, field=_find_faulty_field(decoded_body, body_type))


def _find_faulty_field(decoded_body: object, struct_type: Any) -> str | None:  # noqa: ANN401  a type
    if not isinstance(decoded_body, dict):
        return None
    fields = {
        struct_field.encode_name: struct_field
        for struct_field in msgspec.structs.fields(struct_type)
    }
    unknown_names = [name for name in decoded_body if name not in fields]
    missing_names = [
        name
        for name, required_field in fields.items()
        if required_field.required and name not in decoded_body
    ]
    invalid_names = [
        name
        for name, typed_field in fields.items()
        if name in decoded_body and not _is_valid(decoded_body[name], typed_field.type)
    ]
    return next(iter([*unknown_names, *missing_names, *invalid_names]), None)


def _is_valid(decoded_value: object, expected_type: Any) -> bool:  # noqa: ANN401  a type
    try:
        msgspec.convert(decoded_value, expected_type)
    except msgspec.ValidationError:
        return False
    return True
