"""Objections are decoded from logs of their own contract, whatever bytes the text contains."""

import pytest
from eth_abi.abi import encode
from hypothesis import given, strategies as st

from oracle.chain.decode.abi import load_abi
from oracle.chain.decode.oracle_logs import OBJECTIONS_CONTRACT
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import Objected
from oracle.domain.ids import Address
from oracle.domain.logs import Log
from oracle.errors import InputError
from tests.support.chain.network_logs import NETWORK, ORACLE, TIME, make_hash, make_node_address
from tests.support.examples import examples

OBJECTIONS = Address("0x" + "0b" * 20)
CONTRACTS = {"TaskNetwork": NETWORK}
NODE = make_node_address(1)


def open_reader() -> EventReader:
    return EventReader.from_profile("reference", CONTRACTS, ORACLE, objections_address=OBJECTIONS)


def objection_log(words: bytes, address: Address = OBJECTIONS) -> Log:
    topic = load_abi(OBJECTIONS_CONTRACT).get_event("Objected").digest
    return Log(
        block=7,
        block_hash=make_hash(7),
        time=TIME,
        tx=1,
        tx_hash=make_hash(8),
        index=3,
        address=address,
        topics=(topic, "0x" + NODE[2:].rjust(64, "0"), f"0x{1_700_000_000:064x}"),
        data="0x" + encode(["uint8", "uint32", "bytes"], [2, 5, words]).hex(),
    )


def test_objection_is_decoded():
    decoded = open_reader().decode_rows([objection_log("ich war's nicht: \u00e4".encode())], [])
    assert decoded.contract_events == [
        Objected(Position(7, 1, 3), TIME, NODE, 1_700_000_000, 2, 5, "ich war's nicht: \u00e4")
    ]


@given(words=st.binary(max_size=280))
@examples(100)
def test_objection_with_any_text_is_decoded(words: bytes):
    """A dead letter after the scores would prevent the kickout of the objecting node."""
    decoded = open_reader().decode_rows([objection_log(words)], [])
    (event,) = decoded.contract_events
    assert decoded.dead_letters == []
    assert isinstance(event, Objected)
    assert "\0" not in event.text


def test_objection_in_log_of_another_contract_is_ignored():
    decoded = open_reader().decode_rows([objection_log(b"", ORACLE)], [])
    assert (decoded.contract_events, decoded.dead_letters) == ([], [])


def test_rules_id_does_not_depend_on_the_objection_contract():
    """The identity is part of the rules id, which must be equal for all reporters of a report."""
    plain = EventReader.from_profile("reference", CONTRACTS, ORACLE)
    assert open_reader().identity == plain.identity


def test_objection_contract_at_oracle_address_is_rejected():
    with pytest.raises(InputError, match="two contracts have the same address"):
        EventReader.from_profile("reference", CONTRACTS, ORACLE, objections_address=ORACLE)
