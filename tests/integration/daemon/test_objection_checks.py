"""The page's checks of a bundle's objections: forged texts and answers are named."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from oracle.domain.ids import Address
from oracle.signing.local import KeySigner
from oracle.signing.typed_data import AnswerStatement, Domain, ObjectionStatement
from tests.support.page_scripts import needs_node, run_page_script
from tests.support.rounds import make_address

pytestmark = needs_node

NODE, REPORTER, STRANGER = (KeySigner(bytes(31) + bytes([number])) for number in (1, 2, 3))
DOMAIN = Domain(31_337, make_address(0xEE))
DUE_SINCE = 1_796_000_000
WORDS, BECAUSE = "all hung · 14:02", "the logs show it"
Bundle = dict[str, Any]


def build_answered_objection(*, answered_by: KeySigner = REPORTER) -> Bundle:
    """Return an objection of a bundle, with its answer."""
    objection = ObjectionStatement(NODE.address, DUE_SINCE, 2, WORDS, 0, 2**40 - 1)
    answer = AnswerStatement(NODE.address, DUE_SINCE, False, BECAUSE, DUE_SINCE + 9)
    return {
        "node": NODE.address,
        "seq": 0,
        "due_since": DUE_SINCE,
        "reason": "application",
        "text": WORDS,
        "contract": DOMAIN.contract,
        "deadline": objection.deadline,
        "signature": f"0x{NODE.sign_objection(objection, DOMAIN).hex()}",
        "answer": {
            "is_accepted": answer.is_accepted,
            "because": answer.because,
            "answered_at": answer.answered_at,
            "signer": answered_by.address,
            "signature": f"0x{answered_by.sign_statement(answer, DOMAIN).hex()}",
        },
    }


def build_bundle() -> Bundle:
    """Return the parts of a bundle that the checks read, with one answered objection."""
    return {
        "node": NODE.address,
        "proof": {"leaf": {"kickout_due_since": DUE_SINCE}},
        "signed_round": {
            "chain_id": DOMAIN.chain_id,
            "configuration": {"signers": [REPORTER.address]},
        },
        "objections": [build_answered_objection()],
    }


def run_checks(bundles: list[Bundle]) -> list[dict[str, bool | None]]:
    """Return the result of each check of each bundle by its name."""
    checks = run_page_script("(bundles) => bundles.map(checkObjections)", bundles)
    return [{check["name"]: check["is_true"] for check in of_one} for of_one in checks]


def change(name: str, value: object, *, of_answer: bool = False) -> Callable[[Bundle], None]:
    def forge(bundle: Bundle) -> None:
        entry = bundle["objections"][0]
        (entry["answer"] if of_answer else entry)[name] = value

    return forge


def change_chain(bundle: Bundle) -> None:
    bundle["signed_round"]["chain_id"] += 1


def remove_signers(bundle: Bundle) -> None:
    bundle["signed_round"]["configuration"] = None


def sign_as_reporter(bundle: Bundle) -> None:
    """State that the reporter gave an answer which another key signed."""
    sign_as_stranger(bundle)
    bundle["objections"][0]["answer"]["signer"] = REPORTER.address


def sign_as_stranger(bundle: Bundle) -> None:
    bundle["objections"] = [build_answered_objection(answered_by=STRANGER)]


# The result of the checks of the objection and of the answer, and how the bundle was changed.
CASES: list[tuple[bool | None, bool | None, Callable[[Bundle], None]]] = [
    (True, True, lambda _bundle: None),
    (False, True, change("text", "it was me")),
    (False, True, change("reason", "outage")),
    (False, True, change("seq", 1)),
    (False, True, change("deadline", 7)),
    (False, True, change("signature", "0x" + 130 * "1")),
    (False, False, change("contract", make_address(0xEF))),
    (False, False, change_chain),
    (True, False, change("is_accepted", value=True, of_answer=True)),
    (True, False, change("because", "he asked for it", of_answer=True)),
    (True, False, change("answered_at", 7, of_answer=True)),
    (True, False, change("signature", "0x12", of_answer=True)),
    (True, False, sign_as_reporter),
    (True, None, sign_as_stranger),
    (True, None, remove_signers),
    (None, True, change("signature", None)),
    (True, None, change("signature", None, of_answer=True)),
    (None, None, change("contract", None)),
]


def test_forged_objection_or_answer_fails_its_check():
    bundles = [build_bundle() for _ in CASES]
    for bundle, (_, _, forge) in zip(bundles, CASES, strict=True):
        forge(bundle)
    results = [list(result.values()) for result in run_checks(bundles)]
    assert results == [[objection, answer] for objection, answer, _ in CASES]


@pytest.mark.parametrize(
    "forge",
    [
        change("due_since", DUE_SINCE + 1),
        change("node", Address(make_address(7))),
        change("reason", "weather"),
        change("answer", {"is_accepted": "no"}),
        change("deadline", None),
    ],
)
def test_mismatching_or_malformed_objection_is_rejected(forge: Callable[[Bundle], None]):
    bundle = copy.deepcopy(build_bundle())
    forge(bundle)
    assert run_checks([bundle]) == [{"Objections": False}]
