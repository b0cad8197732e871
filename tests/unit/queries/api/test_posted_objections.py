"""`POST /v1/objections`: statuses, the limits of a client, and the later state of an objection."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT
from oracle.domain.state import Membership, create_node
from oracle.kickouts.objection_intake import IntakeSettings, ObjectionIntake
from oracle.signing.local import KeySigner
from oracle.signing.typed_data import Domain, ObjectionStatement
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IDENTITY, IndexedHistory
from tests.support.histories import History
from tests.support.rounds import make_address
from tests.support.txmgr.stores import NewStore

KEY = KeySigner(bytes(31) + b"\x01")
CONTRACT = make_address(0xEE)
DOMAIN = Domain(IDENTITY.chain_id, CONTRACT)
RULES = replace(CRYNUX, pool_size=4, kick_creator_share=UNIT)
DUE_SINCE = 1_000
BODY = {
    "node": KEY.address,
    "due_since": DUE_SINCE,
    "reason": "application",
    "text": "not me",
    "seq": 0,
    "deadline": 2**40 - 1,
}


def build_body(**changes: Any) -> dict[str, Any]:
    """Return a signed objection; the changes are made after signing."""
    statement = ObjectionStatement(KEY.address, DUE_SINCE, 2, "not me", 0, 2**40 - 1)
    signature = "0x" + KEY.sign_objection(statement, DOMAIN).hex()
    return {**BODY, "signature": signature, **changes}


@pytest.fixture
def indexed(new_sqlite_store: NewStore) -> Iterator[IndexedHistory]:
    """Index a network with a node of a known key, whose kickout is due."""
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store, RULES).whole(History().joins("A"))
        settings = IntakeSettings(DOMAIN, RULES, posts_per_hour=30, daily_gas=70_000)
        intake = ObjectionIntake(store.open_unfenced_store(), settings)
        indexed.source = replace(indexed.source, objection_intake=intake)
        row = replace(
            create_node(KEY.address, 7, 0, 0),
            membership=Membership.MEMBER,
            pool=bytes(4),
            kickout_due_since=Position(0, 0, 0),
            kickout_due_time=DUE_SINCE,
        )
        with store.transaction() as uow:
            uow.nodes.save([row])
        yield indexed


@pytest.fixture
def client(indexed: IndexedHistory) -> TestClient:
    return indexed.client()


def test_posted_objection_is_accepted_and_listed_as_pending(client: TestClient):
    # In the form that `objection sign --json` prints.
    answer = client.post("/v1/objections", json=build_body(to=CONTRACT, calldata="0x"))
    assert answer.status_code == 202
    assert (answer.json()["state"], answer.json()["to"]) == ("waiting", CONTRACT)
    (posted,) = client.get(f"/v1/objections/{KEY.address}").json()["posted"]
    assert (posted["seq"], posted["due_since"], posted["state"]) == (0, DUE_SINCE, "waiting")


@pytest.mark.parametrize(
    ("changes", "status", "refusal"),
    [
        ({"text": "changed"}, 403, "not_signed_by_node"),
        ({"signature": "0x" + 130 * "f"}, 403, "not_signed_by_node"),
        ({"node": make_address(1)}, 404, "not_member"),
        ({"seq": 3}, 409, "wrong_seq"),
        ({"text": 141 * "ä"}, 422, None),
        ({"text": "\ud800"}, 422, None),
        ({"reason": "weather"}, 422, None),
        ({"signature": "0x0"}, 422, None),
        ({"calldata": 5000 * "0"}, 413, None),
    ],
)
def test_rejected_objection_returns_status_and_code(
    client: TestClient, changes: dict[str, Any], status: int, refusal: str | None
):
    content = json.dumps(build_body(**changes))
    headers = {"content-type": "application/json"}
    answer = client.post("/v1/objections", content=content, headers=headers)
    assert (answer.status_code, answer.json().get("refusal")) == (status, refusal)


def test_objection_over_daily_gas_limit_returns_calldata(
    indexed: IndexedHistory, client: TestClient
):
    assert client.post("/v1/objections", json=build_body()).status_code == 202
    with indexed.store.transaction() as uow:
        (posted,) = uow.objection_inbox.list_for_node(KEY.address)
        uow.objection_inbox.mark_ended(posted, 5, "reverted")
    answer = client.post("/v1/objections", json=build_body())
    assert (answer.status_code, answer.json()["refusal"]) == (429, "daily_gas")
    assert KEY.address[2:] in answer.json()["calldata"]


def test_client_over_the_rate_limit_is_rejected_without_database_access(
    indexed: IndexedHistory, client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    for _ in range(3):
        assert client.post("/v1/objections", json=build_body(text="x")).status_code == 403
    monkeypatch.setattr(type(indexed.store), "read_transaction", None)
    for _ in range(20):
        assert client.post("/v1/objections", json=build_body()).status_code == 429


def test_objection_endpoint_is_absent_if_disabled(indexed: IndexedHistory):
    indexed.source = replace(indexed.source, objection_intake=None)
    answer = indexed.client().post("/v1/objections", json=build_body())
    assert answer.status_code == 405
