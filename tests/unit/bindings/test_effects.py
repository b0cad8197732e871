"""The purpose of a call is decoded from its calldata, and its event is searched in the receipt."""

import pytest

from oracle.bindings.expected_events import find_missing_event
from oracle.bindings.qos_roots import CONTRACT as ORACLE_CONTRACT, encode_retry_kick_call
from oracle.bindings.task_network import (
    encode_drop_group_call,
    encode_drop_task_call,
    encode_queue_task_call,
    encode_start_group_call,
    encode_start_task_as_of_call,
    encode_start_task_call,
    remove_as_of_block_check,
)
from oracle.chain.decode.abi import load_abi
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.txmgr.client.receipts import Receipt, ReceiptLog

ORACLE = Address("0x" + 40 * "a")
NETWORK = Address("0x" + 40 * "b")
NODE = Address("0x" + 40 * "c")
TASK = TaskKey("0x" + 64 * "d")
WORD = "0x" + 64 * "0"


def word(value: int) -> str:
    return f"0x{value:064x}"


def receipt(*events: ReceiptLog) -> Receipt:
    return Receipt(Hash(WORD), 7, Hash(WORD), True, 21_000, 1, None, events)


def event(contract: Address, name: str, *topics: str, words: str = "0x") -> ReceiptLog:
    where = ORACLE_CONTRACT if contract == ORACLE else "TaskNetwork"
    return ReceiptLog(contract, (load_abi(where).get_event(name).digest, *topics), words)


NODE_WORD = "0x" + 24 * "0" + NODE[2:]
TWO_WORDS = "0x" + 128 * "0"
DONE = [
    (
        ORACLE,
        encode_retry_kick_call(NODE),
        event(ORACLE, "KickExecuted", NODE_WORD, words=TWO_WORDS),
    ),
    (NETWORK, encode_start_task_call(TASK, NODE), event(NETWORK, "TaskStarted", TASK, NODE_WORD)),
    (
        NETWORK,
        encode_start_task_as_of_call(TASK, NODE, 5, Hash(WORD)),
        event(NETWORK, "TaskStarted", TASK, NODE_WORD),
    ),
    (NETWORK, encode_queue_task_call(TASK), event(NETWORK, "TaskQueued", TASK)),
    (
        NETWORK,
        encode_drop_task_call(TASK),
        event(NETWORK, "TaskAborted", TASK, NODE_WORD, words=TWO_WORDS),
    ),
    (
        NETWORK,
        encode_drop_group_call([TASK, TaskKey(WORD)]),
        event(NETWORK, "TaskAborted", TASK, NODE_WORD, words=TWO_WORDS),
    ),
]


@pytest.mark.parametrize(("contract", "calldata", "emitted_log"), DONE)
def test_expected_event_in_receipt_is_found(
    contract: Address, calldata: str, emitted_log: ReceiptLog
):
    assert find_missing_event(receipt(emitted_log), contract, calldata) is None


@pytest.mark.parametrize(("contract", "calldata", "emitted_log"), DONE)
def test_event_of_another_contract_or_subject_does_not_match(
    contract: Address, calldata: str, emitted_log: ReceiptLog
):
    other_contract_log = ReceiptLog(NODE, emitted_log.topics, emitted_log.data)
    other_subject_log = ReceiptLog(
        contract, (emitted_log.topics[0], word(99), *emitted_log.topics[2:]), emitted_log.data
    )
    name = find_missing_event(receipt(other_contract_log, other_subject_log), contract, calldata)
    assert name is not None
    assert emitted_log.topics[0] in {
        load_abi(where).get_event(name).digest
        for where in (ORACLE_CONTRACT, "TaskNetwork")
        if name in load_abi(where).events
    }


@pytest.mark.parametrize("words", ["0x", word(1), TWO_WORDS[:-2]])
def test_truncated_event_does_not_match(words: str):
    truncated_event = event(ORACLE, "KickExecuted", NODE_WORD, words=words)

    assert (
        find_missing_event(receipt(truncated_event), ORACLE, encode_retry_kick_call(NODE))
        == "KickExecuted"
    )


def test_event_without_topics_does_not_match():
    event_without_topics = event(ORACLE, "KickExecuted", words=TWO_WORDS)

    assert (
        find_missing_event(receipt(event_without_topics), ORACLE, encode_retry_kick_call(NODE))
        == "KickExecuted"
    )


def test_empty_self_transfer_needs_no_event():
    assert find_missing_event(receipt(), NODE, "0x") is None


TRIO = [TaskKey(word(number)) for number in (1, 2, 3)]
NODES = [Address(f"0x{number:040x}") for number in (7, 8, 9)]


def group_started(tasks: list[TaskKey], nodes: list[Address]) -> ReceiptLog:
    lists = [[3, *(int(hex_key, 16) for hex_key in key_list)] for key_list in (tasks, nodes)]
    abi_words = [64, 64 + 32 * 4, *lists[0], *lists[1]]
    data = "0x" + "".join(f"{abi_word:064x}" for abi_word in abi_words)
    return event(NETWORK, "GroupStarted", word(5), words=data)


def test_group_started_event_must_list_nodes_in_the_same_order():
    call = encode_start_group_call(TRIO, NODES, 5, Hash(WORD))
    matching_event = group_started(TRIO, NODES)
    reordered_event = group_started(TRIO, NODES[::-1])
    assert find_missing_event(receipt(matching_event), NETWORK, call) is None
    assert find_missing_event(receipt(reordered_event), NETWORK, call) == "GroupStarted"


def test_call_without_its_as_of_check_equals_a_plain_group_start_call():
    calldata = encode_start_group_call(TRIO, NODES, 5, Hash(word(6)))
    assert remove_as_of_block_check(calldata) == encode_start_group_call(TRIO, NODES)
