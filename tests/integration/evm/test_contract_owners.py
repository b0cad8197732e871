"""Nodes that are contracts post objections and subscribe over HTTP; Anvil runs their contracts."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from fastapi.testclient import TestClient

from oracle.bindings.objections import CONTRACT, encode_signed_objection_call
from oracle.daemon.config.chain_section import ChainSection
from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.contract_accounts import ContractAccounts
from oracle.daemon.web.api.read_api import create_read_api
from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.state import Membership, create_node
from oracle.kickouts.objection_intake import IntakeSettings, ObjectionIntake
from oracle.kickouts.objection_sender import build_objection_statement
from oracle.notify.subscriptions import SubscriptionIntake, SubscriptionTerms
from oracle.signing.typed_data import Domain, ObjectionStatement, build_objection_typed_data
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IDENTITY, IndexedHistory
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain, fresh_chain
from tests.support.histories import History
from tests.support.rounds import make_address
from tests.support.txmgr.stores import NewStore

pytestmark = [pytest.mark.evm, pytest.mark.slow]

__all__ = ["chain", "fresh_chain"]

OWNER = Account.from_key("0x" + 64 * "1")
STRANGER = Account.from_key("0x" + 64 * "2")
RULES = replace(CRYNUX, pool_size=4, kick_creator_share=UNIT)
ANSWERS_SHORT, REVERTS, BURNS = 1, 2, 3
DUE_SINCE = 1_000
DEADLINE = 2**40 - 1
SITE, NOW = "https://qos.example.org", 1_000_000
TERMS = SubscriptionTerms(
    site=SITE, max_per_node=50, max_total=50, requests_per_hour=100, max_failing_days=1
)


@dataclass
class Owners:
    """A read API, and nodes of which some are contracts; the kickouts of all are due."""

    chain: Chain
    indexed: IndexedHistory
    objections: Any
    url: str = ""
    now: float = 0.0

    def __post_init__(self) -> None:
        self.url = self.url or self.chain.url
        self.reopen()

    def reopen(self) -> None:
        """Open the read API over the endpoint at `url`, without the limits used so far."""
        store = self.indexed.store
        section = ChainSection(id=self.chain.id, endpoints=(self.url,))
        accounts = ContractAccounts(section, store, lambda: self.now)
        settings = IntakeSettings(self.domain, RULES, posts_per_hour=30, daily_gas=5_000_000)
        source = replace(
            self.indexed.source,
            objection_intake=ObjectionIntake(store, settings, accounts.accepts_signature),
            subscriptions=SubscriptionIntake(
                store, TERMS, lambda: NOW, accounts.accepts_signature
            ),
        )
        app = create_read_api(source, streams=ApiSection())
        # Each client has an address of its own, so that only the limits of contracts are reached.
        self.clients = (
            TestClient(app, client=(f"10.0.0.{number}", 1)) for number in range(1, 250)
        )

    @property
    def domain(self) -> Domain:
        return Domain(self.chain.id, Address(self.objections.address.lower()))

    def add_node(self, address: str) -> Address:
        """Let an account be a node whose kickout is due."""
        node = Address(address.lower())
        row = replace(
            create_node(node, 7, 0, 0),
            membership=Membership.MEMBER,
            pool=bytes(4),
            kickout_due_since=Position(0, 0, 0),
            kickout_due_time=DUE_SINCE,
        )
        with self.indexed.store.transaction() as uow:
            uow.nodes.save([row])
        return node

    def add_wallet(self, way: int = 0) -> Address:
        """Deploy a wallet of the owner that is a node, and behaves in one of several ways."""
        wallet = self.chain.deploy("testing/SmartWallet", OWNER.address)
        if way:
            self.chain.send(wallet.functions.setWay(way))
        return self.add_node(wallet.address)

    def object(self, node: Address, signer: Any = OWNER, signature: str | None = None) -> Any:
        statement = ObjectionStatement(node, DUE_SINCE, 2, "not me", 0, DEADLINE)
        data = build_objection_typed_data(statement, self.domain)
        signed = signer.sign_message(encode_typed_data(full_message=data))
        body = {
            "node": node,
            "due_since": DUE_SINCE,
            "reason": "application",
            "text": "not me",
            "seq": 0,
            "deadline": DEADLINE,
            "signature": signature or f"0x{signed.signature.hex()}",
        }
        return next(self.clients).post("/v1/objections", json=body)

    def subscribe(self, node: Address, signer: Any = OWNER) -> Any:
        client = next(self.clients)
        data = client.get("/v1/subscriptions").json()["typed_data"]
        data["message"] |= {"service": SITE, "node": node, "action": "list"}
        data["message"] |= {"nonce": int(self.now) + 1, "deadline": NOW + 60}
        signed = signer.sign_message(encode_typed_data(full_message=data))
        body = data["message"] | {"signature": f"0x{signed.signature.hex()}"}
        return client.post("/v1/subscriptions", json=body)


@pytest.fixture
def owners(chain: Chain, new_sqlite_store: NewStore) -> Iterator[Owners]:
    with new_sqlite_store() as store:
        assert chain.id == IDENTITY.chain_id
        indexed = IndexedHistory(store, RULES).whole(History().joins("A"))
        yield Owners(chain, indexed, chain.deploy(CONTRACT, make_address(0xCC)))


def test_objection_by_a_contract_wallet_fits_in_the_reserved_gas(owners: Owners):
    wallet = owners.add_wallet()
    assert owners.object(wallet).status_code == 202

    with owners.indexed.store.read_transaction() as uow:
        (posted,) = uow.objection_inbox.list_for_node(wallet)
    calldata = encode_signed_objection_call(build_objection_statement(posted), posted.signature)
    receipt = owners.chain.transact(to=owners.objections.address, data=calldata)
    assert receipt.only("Objected")["node"].lower() == wallet
    assert receipt.gas < posted.reserved_gas


def test_only_the_contract_wallet_itself_can_subscribe(owners: Owners):
    wallet = owners.add_wallet()
    assert owners.subscribe(wallet).status_code == 200
    assert owners.subscribe(wallet, STRANGER).status_code == 403


@pytest.mark.parametrize("way", [ANSWERS_SHORT, REVERTS, BURNS])
def test_signature_rejected_by_contract_wallet_is_refused(owners: Owners, way: int):
    wallet = owners.add_wallet(way)
    assert owners.object(wallet).json()["refusal"] == "not_signed_by_node"
    assert owners.subscribe(wallet).status_code == 403


def test_signature_of_other_account_is_refused(owners: Owners):
    for node in (owners.add_wallet(), owners.add_node(OWNER.address)):
        answer = owners.object(node, STRANGER)
        assert (answer.status_code, answer.json()["refusal"]) == (403, "not_signed_by_node")


def test_invalid_signatures_cause_only_a_few_contract_calls(
    owners: Owners, monkeypatch: pytest.MonkeyPatch
):
    wallet = owners.add_wallet()
    account = owners.add_node(OWNER.address)
    calls: list[Address] = []
    call_account = ContractAccounts._call_is_valid_signature

    def count_call(accounts: ContractAccounts, node: Address, *arguments: Any) -> bool | None:
        calls.append(node)
        return call_account(accounts, node, *arguments)

    monkeypatch.setattr(ContractAccounts, "_call_is_valid_signature", count_call)
    answers = [owners.object(wallet, STRANGER) for _ in range(8)]
    assert [answer.status_code for answer in answers] == [403] * 3 + [503] * 5
    assert answers[-1].json()["refusal"] == "signature_unchecked"
    assert wallet[2:] in answers[-1].json()["calldata"]
    answers = [owners.object(account, STRANGER) for _ in range(8)]
    assert {answer.status_code for answer in answers} == {403}
    assert calls == [wallet] * 3 + [account]

    owners.now += 60
    assert owners.object(wallet).status_code == 202


def test_request_without_an_endpoint_is_refused_with_a_reason(owners: Owners):
    owners.url = "http://127.0.0.1:9"
    owners.reopen()
    wallet = owners.add_wallet()
    answer = owners.object(wallet)
    assert (answer.status_code, answer.json()["refusal"]) == (503, "signature_unchecked")
    assert "no RPC endpoint" in answer.json()["detail"]
    answer = owners.subscribe(wallet)
    assert (answer.status_code, "Atom feed" in answer.json()["detail"]) == (503, True)
    # The key of a node needs no endpoint.
    assert owners.object(owners.add_node(OWNER.address)).status_code == 202
