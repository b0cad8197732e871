"""An accepted round is read beside the call that pushed it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from oracle.chain.decode.abi import load_abi
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.events.oracle_events import IndexReuse, Registrations, RoundAccepted
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, Log
from oracle.domain.reports.round_data import encode_round
from tests.support.chain.network_logs import (
    AT,
    ORACLE,
    TIME,
    a_hash,
    as_log,
    network,
    node,
    oracle,
    task,
)

T, N, M = task(1), node(1), node(2)

RECORDS = bytes.fromhex("000001" + "02" * 32 + "00000a" + "ff" * 32)
NODES = Registrations((IndexReuse(Address(N), Address(M)),), (Address(node(3)),))
BLOB = encode_round(NODES, RECORDS)
WORDS = ((1, int("02" * 32, 16)), (10, 2**256 - 1))


def pushed(blob: bytes = BLOB, sender: str = M) -> tuple[Log, Call]:
    """A RoundAccepted and the push that made it."""
    push = load_abi("QoSOracle").functions["push"]
    values = [9, 1, 6, bytes(32), 999, blob, bytes(65)]
    arguments = encode([parameter.abi_type for parameter in push.inputs], values)
    log = as_log(
        oracle(
            "RoundAccepted",
            round=9,
            asOf=6,
            asOfHash=a_hash(6),
            dataHash="0x" + keccak(blob).hex(),
            digest=a_hash(3),
            config=a_hash(4),
            signers=1,
            transmitter=sender,
        )
    )
    text = push.digest[:10] + arguments.hex()
    call = Call(7, a_hash(7), TIME, 2, a_hash(2), node(2), ORACLE, 0, text, succeeded=True)
    return log, call


def test_round_nodes_and_scores_are_decoded_from_push_call(reader: EventReader):
    log, call = pushed()

    (event,) = reader.decode_rows([log], [call]).contract_events

    assert reader.needs_call(log)
    data_hash = Hash("0x" + keccak(BLOB).hex())
    assert event == RoundAccepted(
        AT, TIME, 9, 6, a_hash(6), data_hash, a_hash(3), a_hash(4), M, NODES, WORDS
    )


def test_only_logs_of_accepted_rounds_need_their_call(reader: EventReader):
    assert not reader.needs_call(as_log(network("TaskQueued", task=T)))
    assert not reader.needs_call(as_log(oracle("NodeRegistered", index=5, node=N)))


def test_noncanonical_push_calldata_decodes(reader: EventReader):
    log, call = pushed()
    # The data moved behind 64 bytes of nothing; no trailing padding.
    head = call.input[10 : 10 + 64 * 5]
    moved = head + f"{32 * 11:064x}" + f"{32 * 7:064x}" + f"{0:064x}" * 4
    moved += f"{len(BLOB):064x}" + BLOB.hex()

    (event,) = reader.decode_rows(
        [log], [replace(call, input=call.input[:10] + moved)]
    ).contract_events

    assert isinstance(event, RoundAccepted)
    assert event.words == WORDS


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda call: replace(call, input=call.input.replace("02" * 32, "03" * 32)), "hash"),
        (
            lambda call: replace(call, input="0x12345678" + call.input[10:]),
            "the call is not a call of push",
        ),
        (lambda call: replace(call, input=call.input[:200]), "too short"),
        (lambda call: replace(call, sender=N), "is not the transmitter in the event"),
        (
            lambda call: replace(call, tx_hash=a_hash(77)),
            "the call that emitted the log is missing",
        ),
    ],
)
def test_mismatched_push_call_becomes_dead_letter(
    reader: EventReader, change: Callable[[Call], Call], reason: str
):
    log, call = pushed()

    decoded = reader.decode_rows([log], [change(call)])

    assert decoded.contract_events == []
    (letter,) = decoded.dead_letters
    assert (letter.block, letter.index, letter.name) == (7, 3, "RoundAccepted")
    assert reason in letter.error


def test_truncated_push_blob_becomes_dead_letter(reader: EventReader):
    log, call = pushed(blob=BLOB[:-1])

    decoded = reader.decode_rows([log], [call])

    assert decoded.contract_events == []
    assert "expected a multiple of" in decoded.dead_letters[0].error
