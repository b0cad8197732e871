"""The sender of a call is proven by its signature, not by the endpoint's data."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from devnet.fakechain.block_json import ACCESS_LIST, DYNAMIC, LEGACY, Json, Tx
from devnet.fakechain.fault import InjectedFault, wrap_change_to_skip_errors
from devnet.fakechain.faults import block_faults
from devnet.fakechain.mining import create_account
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import BlockTree
from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import Address
from oracle.errors import TransientError
from tests.pools import source_on
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.ingest.endpoints import read_metric
from tests.support.ingest.event_encoding import build_transaction
from tests.support.ingest.indexer import CHAIN_ID
from tests.support.ingest.reading import build_logs, read_feature_metric

WATCHED = "0x12345678"
CALLER, THIEF = (Address(create_account(number)) for number in (1, 2))
# An address without a key, as of a chain's own transactions.
SYSTEM = "0x" + "fe" * 20
ZEROS = "0x" + "00" * 32
Open = Callable[..., ChainSource]


@pytest.fixture
def tree() -> BlockTree:
    """Return a tree with enough blocks with logs to prove the chain's roots before a lie."""
    tree = BlockTree(CHAIN_ID)
    for log in build_logs(40):
        tree.mine([build_transaction(log)])
    return tree


@pytest.fixture
def open_source() -> Iterator[Open]:
    """Return a function that opens a source for calls, with one endpoint for each provider."""
    with ExitStack() as until_the_end:

        def open_call_source(*providers: Provider) -> ChainSource:
            reader = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)
            reader.selectors = {Address(NETWORK): frozenset({WATCHED})}
            urls = [
                until_the_end.enter_context(serve_endpoint(provider)).url for provider in providers
            ]
            source = source_on(reader, *urls)
            until_the_end.callback(source.close)
            return source

        yield open_call_source


def build_changed_transactions_fault(**fields: object) -> InjectedFault:
    """Return a fault that changes fields of every transaction that calls our contracts."""

    def change_fields(sent: Json) -> Json:
        return {**sent, **fields} if sent["to"] in {NETWORK, ORACLE} else sent

    def change_blocks(_request: object, answer: Any) -> object:
        if "transactions" not in answer:
            return change_fields(answer)
        transactions = answer["transactions"]
        return {
            **answer,
            "transactions": [change_fields(o) if isinstance(o, dict) else o for o in transactions],
        }

    methods = ("eth_getBlockByNumber", "eth_getBlockByHash", "eth_getTransactionByHash")
    return InjectedFault(
        "other transactions",
        wrap_change_to_skip_errors(change_blocks),
        limits={"methods": methods},
    )


def fetch_block_window(
    source: ChainSource, number: int, *, with_headers: bool = False
) -> BlockWindow:
    source.fetch_heads()
    return source.fetch_window(BlockRange(number, number), with_headers=with_headers)


def count_unproven_senders(source: ChainSource, place: int = 0) -> float:
    name = source.list_endpoint_names()[place]
    return read_metric("oracle_verify_unproven_senders_total", endpoint=name)


# --- honest ---


@pytest.mark.parametrize("kind", [LEGACY, ACCESS_LIST, DYNAMIC])
def test_call_with_valid_sender_signature_is_proven(tree: BlockTree, open_source: Open, kind: int):
    provider = Provider(tree)
    source = open_source(provider)
    provider.head = block = tree.mine([Tx(CALLER, NETWORK, WATCHED, tx_type=kind)])

    window = fetch_block_window(source, block.number)

    assert [call.sender for call in window.calls] == [CALLER]
    assert (window.level, count_unproven_senders(source)) == (VerificationLevel.PROVEN, 0)


def test_unsigned_call_is_accepted_as_unproven(tree: BlockTree, open_source: Open):
    provider = Provider(tree)
    source = open_source(provider)
    provider.head = block = tree.mine([Tx(SYSTEM, NETWORK, WATCHED)])

    window = fetch_block_window(source, block.number)

    assert [call.sender for call in window.calls] == [SYSTEM]
    assert (
        window.level < VerificationLevel.PROVEN,
        window.proven,
        count_unproven_senders(source),
    ) == (
        True,
        (),
        1,
    )


@pytest.mark.parametrize(
    "fields",
    [{"type": "0x7e"}, {"r": None, "s": None, "v": None}, {"gas": None}],
    ids=str,
)
def test_unreadable_transaction_field_leaves_sender_unproven(
    tree: BlockTree, open_source: Open, fields: Json
):
    """The receipts are proven as before."""
    provider = Provider(tree)
    provider.faults += [
        build_changed_transactions_fault(**fields),
        block_faults.build_changed_header_fault({"transactionsRoot": ZEROS}),
    ]
    source = open_source(provider)
    provider.head = block = tree.mine([Tx(CALLER, NETWORK, WATCHED)])

    window = fetch_block_window(source, block.number)

    assert [call.sender for call in window.calls] == [CALLER]
    assert (window.proven, count_unproven_senders(source)) == ((), 1)


# --- lies ---

LIES = [{"from": THIEF}, {"value": "0x7"}, {"input": WATCHED + "00"}, {"r": "0x7"}]


@pytest.mark.parametrize("place", [0, 1], ids=["liar first", "liar second"])
@pytest.mark.parametrize("roots", [True, False], ids=["true headers", "no roots"])
@pytest.mark.parametrize("lie", LIES, ids=str)
def test_call_with_a_false_sender_is_read_from_another_endpoint(
    tree: BlockTree, open_source: Open, lie: Json, place: int, *, roots: bool
):
    block = tree.mine([Tx(CALLER, NETWORK, WATCHED)])
    providers = [Provider(tree), Provider(tree)]
    if not roots:
        for provider in providers:
            provider.faults.append(
                block_faults.build_changed_header_fault({"transactionsRoot": ZEROS})
            )
    providers[place].faults.append(build_changed_transactions_fault(**lie))

    source = open_source(*providers)
    windows = [
        fetch_block_window(source, block.number, with_headers=every) for every in (True, False)
    ]

    for window in windows:
        assert [(c.sender, c.value, c.input) for c in window.calls] == [(CALLER, 0, WATCHED)]


def test_false_sender_is_counted_against_the_endpoint(tree: BlockTree, open_source: Open):
    block = tree.mine([Tx(CALLER, NETWORK, WATCHED)])
    liar = Provider(tree)
    liar.faults.append(build_changed_transactions_fault(**{"from": THIEF}))
    source = open_source(liar, Provider(tree))

    fetch_block_window(source, block.number)

    name = source.list_endpoint_names()[0]
    # The endpoint was queried once more, about this block alone, to prove it wrong.
    assert read_metric("oracle_verify_failures_total", check="sender", endpoint=name) == 2


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_false_sender_from_the_only_endpoint_is_rejected(
    tree: BlockTree, open_source: Open, lie: Json
):
    block = tree.mine([Tx(CALLER, NETWORK, WATCHED)])
    liar = Provider(tree)
    liar.faults += [
        build_changed_transactions_fault(**lie),
        block_faults.build_changed_header_fault({"transactionsRoot": ZEROS}),
    ]
    source = open_source(liar)

    for _ in range(5):
        with pytest.raises(TransientError, match=r"signed by|its hash|signature is invalid"):
            fetch_block_window(source, block.number)


def test_sender_is_unproven_if_every_endpoint_reports_a_false_sender(
    tree: BlockTree, open_source: Open
):
    """Some chains put calls into their blocks with a signature that is not one."""
    block = tree.mine([Tx(CALLER, NETWORK, WATCHED)])
    providers = [Provider(tree), Provider(tree)]
    for provider in providers:
        provider.faults.append(build_changed_transactions_fault(**{"from": THIEF}))
    source = open_source(*providers)

    window = fetch_block_window(source, block.number)

    assert [call.sender for call in window.calls] == [THIEF]
    assert (window.proven, count_unproven_senders(source), read_feature_metric("sender")) == (
        (),
        1,
        -1,
    )
