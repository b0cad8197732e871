"""The demo fails unless its objections end as expected."""

from typing import Any

import pytest

from devnet.demo.objector import ObjectionInApi
from oracle.domain.reports.objections import ObjectionVerdict

UPHELD = {"verdict": "supported", "is_accepted": True}


@pytest.mark.parametrize(
    ("expected", "outcome", "is_fault"),
    [
        ("refuted", {"verdict": "refuted"}, False),
        ("refuted", {"verdict": "refuted", "is_accused": True}, False),
        ("refuted", {"verdict": "supported"}, True),
        ("refuted", {}, True),
        ("refuted", {"refused": "not due"}, True),
        ("supported", UPHELD, False),
        ("supported", {"verdict": "supported"}, True),
        ("supported", {"verdict": "supported", "is_accepted": False}, True),
        ("supported", UPHELD | {"verdict": "open"}, True),
        ("supported", UPHELD | {"is_accused": True}, True),
    ],
)
def test_demo_reports_an_unexpected_objection_outcome(
    expected: str, outcome: dict[str, Any], *, is_fault: bool
):
    objection = ObjectionInApi("fermi", ObjectionVerdict(expected), **outcome)
    assert bool(objection.list_faults()) == is_fault
