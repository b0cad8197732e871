"""Only logs of the oracle's timelock announce changes of its rules."""

from collections.abc import Sequence

import pytest

from oracle.bindings.codec import encode_call
from oracle.bindings.qos_roots import CONTRACT
from oracle.bindings.timelock import TIMELOCK, TimelockedCall
from oracle.chain.decode.oracle_logs import iterate_timelock_event_readers
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.events.oracle_events import (
    ContractEvent,
    OperationCancelled,
    OperationSalted,
    RulesExecuted,
    RulesScheduled,
    RulesSet,
)
from oracle.domain.ids import Address, Hash
from tests.support.chain.memory_chain import UnminedLog
from tests.support.chain.network_logs import (
    AT,
    NETWORK,
    ORACLE,
    TIME,
    encode_log,
    make_hash,
    make_node_address,
    to_mined_log,
)

TIMELOCK_ADDRESS = Address("0x" + "71" * 20)
NEXT_RULES = make_hash(7)
SET_RULES = encode_call(CONTRACT, "setRules", bytes.fromhex(NEXT_RULES[2:]))
OPERATION = TimelockedCall(ORACLE, SET_RULES).operation_id
READER_BY_TOPIC = {event.digest: read for event, read in iterate_timelock_event_readers(ORACLE)}


def timelock(event: str, **values: object) -> UnminedLog:
    return encode_log(TIMELOCK, TIMELOCK_ADDRESS, event, **values)


def build_scheduled_log(
    *, target: Address = ORACLE, data: str = SET_RULES, value: int = 0, delay: int = 600
) -> UnminedLog:
    return timelock(
        "CallScheduled",
        id=OPERATION,
        index=0,
        target=target,
        value=value,
        data=bytes.fromhex(data[2:]),
        predecessor=Hash("0x" + "00" * 32),
        delay=delay,
    )


def read(log: UnminedLog) -> Sequence[ContractEvent]:
    return READER_BY_TOPIC[log.topics[0]](to_mined_log(log))


def test_scheduled_rules_are_decoded_with_their_earliest_time():
    assert read(build_scheduled_log(delay=600)) == [
        RulesScheduled(AT, TIME, OPERATION, NEXT_RULES, TIME + 600)
    ]


def test_executed_cancelled_and_salted_operations_are_decoded():
    executed = timelock(
        "CallExecuted",
        id=OPERATION,
        index=0,
        target=ORACLE,
        value=0,
        data=bytes.fromhex(SET_RULES[2:]),
    )
    assert read(executed) == [RulesExecuted(AT, TIME, OPERATION, NEXT_RULES)]
    assert read(timelock("Cancelled", id=OPERATION)) == [OperationCancelled(AT, TIME, OPERATION)]
    assert read(timelock("CallSalt", id=OPERATION, salt=make_hash(3))) == [
        OperationSalted(AT, TIME, OPERATION, make_hash(3))
    ]


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(build_scheduled_log(target=make_node_address(1)), id="another contract"),
        pytest.param(
            build_scheduled_log(data=encode_call(CONTRACT, "resume")), id="another function"
        ),
        pytest.param(build_scheduled_log(data=SET_RULES[:-2]), id="short arguments"),
        pytest.param(build_scheduled_log(data="0x"), id="no data"),
        pytest.param(build_scheduled_log(value=1), id="with ether, which the contract rejects"),
    ],
)
def test_unrelated_scheduled_call_is_ignored(log: UnminedLog):
    assert not read(log)


def test_trailing_calldata_is_ignored():
    (event,) = read(build_scheduled_log(data=SET_RULES + "ff"))
    assert isinstance(event, RulesScheduled)
    assert event.rules_hash == NEXT_RULES


def test_unlimited_delay_is_capped_at_the_largest_exact_json_number():
    (event,) = read(build_scheduled_log(delay=2**256 - 1))
    assert isinstance(event, RulesScheduled)
    assert event.ready_at == 2**53 - 1


def test_reader_with_a_timelock_decodes_logs_of_oracle_and_timelock():
    reader = EventReader.from_profile(
        "reference", {"TaskNetwork": NETWORK}, ORACLE, timelock_address=TIMELOCK_ADDRESS
    )
    rules_set = encode_log("roots/QoSRoots", ORACLE, "RulesSet", rulesHash=NEXT_RULES)

    decoded = reader.decode_rows(
        [to_mined_log(build_scheduled_log()), to_mined_log(rules_set)], []
    )

    assert [type(event) for event in decoded.contract_events] == [RulesScheduled, RulesSet]
    assert TIMELOCK_ADDRESS in reader.addresses
    # The rules hash contains the identity, so the timelock must not change it.
    other = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)
    assert reader.identity == other.identity


def test_announcement_by_other_timelock_is_ignored():
    reader = EventReader.from_profile(
        "reference", {"TaskNetwork": NETWORK}, ORACLE, timelock_address=make_node_address(9)
    )
    assert not reader.decode_rows([to_mined_log(build_scheduled_log())], []).contract_events
