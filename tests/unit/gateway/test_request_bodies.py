"""An invalid request body gets a response that names the field, and changes nothing."""

import json
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from gateway.request_bodies import (
    MAX_ROWS,
    BodyError,
    parse_outcomes,
    parse_ranking_body,
    parse_select_body,
)
from oracle.systems.pocket.relay_outcomes import OutcomeKind
from tests.support.examples import examples
from tests.unit.gateway.relays import T0, make_outcome

VALID_ROW = {
    "node": "a",
    "chain": "0021",
    "session": "s",
    "t_ms": T0,
    "ok": True,
    "latency_ms": 100,
}
SELECTION_REQUEST = {"chain": "0021", "session": "s", "candidates": ["a", "b"]}


def body(*rows: object) -> bytes:
    return json.dumps({"outcomes": rows}).encode()


def post_rejected(sent: bytes) -> dict[str, object]:
    with pytest.raises(BodyError) as error:
        parse_outcomes(sent, T0, 5_000)
    answer = error.value.build_payload()
    answer.pop("error")
    return answer


def test_valid_batch_is_decoded():
    late = {**VALID_ROW, "ok": False, "latency_ms": 3_000, "kind": "timeout", "id": "x"}
    assert parse_outcomes(body(VALID_ROW, late), T0, 5_000) == [
        make_outcome("a"),
        make_outcome("a", kind=OutcomeKind.TIMEOUT, outcome_id="x"),
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("node", ""), ("node", 7), ("node", "x" * 129), ("node", "a b"), ("node", "a\u0000"),
        ("node", "\u00e9"), ("node", "a\n"), ("chain", None), ("chain", ""), ("session", "a b"),
        ("t_ms", -1), ("t_ms", 1.5), ("t_ms", "1"), ("t_ms", 2**70), ("t_ms", T0 + 5_001),
        ("ok", 1), ("ok", None), ("latency_ms", -1), ("latency_ms", 1e300), ("latency_ms", "1"),
        ("latency_ms", None), ("latency_ms", 3_600_001), ("kind", "fine"), ("kind", 1),
        ("kind", "check_passed"), ("id", ""), ("id", 1), ("extra", 1),
    ],
)  # fmt: skip
def test_invalid_row_is_reported_with_index_and_field(field: str, value: object):
    bad = {**VALID_ROW, field: value}
    assert post_rejected(body(VALID_ROW, bad, VALID_ROW)) == {"row": 1, "field": field}


@pytest.mark.parametrize("field", ["node", "chain", "t_ms", "ok", "latency_ms"])
def test_missing_field_is_named_in_the_error(field: str):
    lacking = {name: value for name, value in VALID_ROW.items() if name != field}
    assert post_rejected(body(lacking)) == {"row": 0, "field": field}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"ok": False}, "kind"),
        ({"ok": False, "kind": "ok"}, "ok"),
        ({"ok": True, "kind": "timeout"}, "ok"),
    ],
)
def test_row_is_rejected_if_its_ok_flag_contradicts_its_kind(changed, field: str):
    assert post_rejected(body({**VALID_ROW, **changed})) == {"row": 0, "field": field}


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", {}), (b"{", {}), (b"\xff", {}), (b"[" * 100_000, {}), (b"[]", {}), (b"null", {}),
        (b"{}", {"field": "outcomes"}), (b'{"outcomes": 1}', {"field": "outcomes"}),
        (b'{"outcomes": [], "more": 1}', {"field": "more"}),
        (b'{"outcomes": [1]}', {"row": 0}),
        (b'{"a":' * 100_000, {}), (b'{"outcomes": ["\\ud800"]}', {}),
        (body(*[VALID_ROW] * (MAX_ROWS + 1)), {"field": "outcomes"}),
    ],
)  # fmt: skip
def test_malformed_batch_is_rejected(sent: bytes, answer: dict[str, object]):
    assert post_rejected(sent) == answer


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"candidates": []}, "candidates"),
        ({"candidates": ["a", "a"]}, "candidates"),
        ({"candidates": [str(n) for n in range(101)]}, "candidates"),
        ({"candidates": "ab"}, "candidates"),
        ({"session": ""}, "session"),
        ({"n": 0}, "n"),
        ({"n": 101}, "n"),
        ({"exclude": [1]}, "exclude"),
        ({"prove": 1}, "prove"),
        ({"seed": "00"}, "seed"),
    ],
)
def test_invalid_selection_field_is_named_in_the_error(changed, field: str):
    with pytest.raises(BodyError) as error:
        parse_select_body(json.dumps({**SELECTION_REQUEST, **changed}).encode())
    assert error.value.field == field


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*VALID_ROW, *SELECTION_REQUEST, "outcomes"]), inner, max_size=4
        )
    ),
)


@given(_JSON.map(lambda document: json.dumps(document).encode()) | st.binary(max_size=60))
@examples(300)
def test_arbitrary_body_is_decoded_or_rejected(sent: bytes):
    for read in (lambda: parse_outcomes(sent, T0, 0), lambda: parse_select_body(sent)):
        with suppress(BodyError):
            read()


def test_ranking_request_with_extra_field_is_rejected():
    assert parse_ranking_body(json.dumps(SELECTION_REQUEST).encode()).candidates == ["a", "b"]
    with pytest.raises(BodyError):
        parse_ranking_body(json.dumps({**SELECTION_REQUEST, "n": 2}).encode())
