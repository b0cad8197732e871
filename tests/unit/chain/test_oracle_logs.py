"""Logs of the oracle contract of roots become events of the domain."""

from dataclasses import fields
from typing import get_args

import pytest

from oracle.chain.decode.abi_values import MalformedError
from oracle.chain.decode.oracle_logs import (
    CONSTRUCTOR_ONLY_EVENTS,
    ORACLE_CONTRACT,
    iterate_oracle_event_readers,
)
from oracle.domain.events.oracle_events import (
    ConfigSet,
    ContractEvent,
    ContractKickLimits,
    KickAccused,
    KickAllowed,
    KickCancelled,
    KickExecuted,
    KickLimitsSet,
    KickRefused,
    LimitsSet,
    NodeExpelled,
    NodeReadmitted,
    Objected,
    OperationCancelled,
    OperationSalted,
    PausedUntil,
    RootsLimits,
    RoundAccepted,
    RoundsStruck,
    RulesExecuted,
    RulesScheduled,
    RulesSet,
    SignersSet,
)
from tests.support.chain.memory_chain import UnminedLog
from tests.support.chain.network_logs import (
    AT,
    ORACLE,
    TIME,
    encode_log,
    make_hash,
    make_node_address,
    to_mined_log,
)
from tests.support.evm.artifacts import load_artifact

N = make_node_address(1)
M = make_node_address(2)
READER_BY_TOPIC = {event.digest: read for event, read in iterate_oracle_event_readers()}


def oracle(event: str, **values: object) -> UnminedLog:
    return encode_log(ORACLE_CONTRACT, ORACLE, event, **values)


CASES: list[tuple[UnminedLog, ContractEvent]] = [
    (
        oracle(
            "RoundAccepted",
            round=9,
            asOf=2**48 - 1,
            asOfHash=make_hash(1),
            root=make_hash(2),
            config=make_hash(3),
            signers=2**254 + 5,
        ),
        RoundAccepted(
            AT, TIME, 9, 2**48 - 1, make_hash(1), make_hash(2), make_hash(3), 2**254 + 5
        ),
    ),
    (oracle("RoundsStruck", **{"from": 3, "to": 8}), RoundsStruck(AT, TIME, 3, 8)),
    (
        oracle("KickAccused", node=N, round=9, dueSince=77, evidence=make_hash(4), readyAt=99),
        KickAccused(AT, TIME, N, 9, 77, make_hash(4), 99),
    ),
    (
        oracle("KickCancelled", node=N, by=M, why=make_hash(2)),
        KickCancelled(AT, TIME, N, M, make_hash(2)),
    ),
    (oracle("KickAllowed", node=N, dueSince=77), KickAllowed(AT, TIME, N, 77)),
    (
        oracle("KickExecuted", node=N, evidence=make_hash(1), target=M),
        KickExecuted(AT, TIME, N, make_hash(1), M),
    ),
    (
        oracle("KickRefused", node=N, target=M, reason=make_hash(3)),
        KickRefused(AT, TIME, N, M, make_hash(3)),
    ),
    (oracle("NodeExpelled", node=N), NodeExpelled(AT, TIME, N)),
    (oracle("NodeReadmitted", node=N), NodeReadmitted(AT, TIME, N)),
    (oracle("SignersSet", signers=[N, M], quorum=2), SignersSet(AT, TIME, (N, M), 2)),
    (oracle("ConfigSet", count=7, config=make_hash(4)), ConfigSet(AT, TIME, 7, make_hash(4))),
    (oracle("RulesSet", rulesHash=make_hash(5)), RulesSet(AT, TIME, make_hash(5))),
    (oracle("PausedUntil", until=99, by=M), PausedUntil(AT, TIME, 99)),
    (
        oracle("LimitsSet", limits=(10, 8000, 7200, 2000, 600, 3, 4)),
        LimitsSet(AT, TIME, RootsLimits(10, 8000, 7200, 2000, 600, 3, 4)),
    ),
    (
        oracle("KickLimitsSet", limits=(600_000, 77, 3, 1, 3600)),
        KickLimitsSet(AT, TIME, ContractKickLimits(600_000, 77, 3, 1, 3600)),
    ),
]


@pytest.mark.parametrize(
    ("log", "event"),
    CASES,
    ids=lambda value: "" if isinstance(value, UnminedLog) else type(value).__name__,
)
def test_contract_log_is_decoded_to_domain_event(log: UnminedLog, event: ContractEvent):
    assert READER_BY_TOPIC[log.topics[0]](to_mined_log(log)) == event


def test_every_contract_event_type_is_decoded():
    emitted_by_others = {
        *(OperationCancelled, OperationSalted, RulesExecuted, RulesScheduled),
        Objected,
    }
    assert {type(event) for _, event in CASES} == (
        set(get_args(ContractEvent)) - emitted_by_others
    )
    assert {log.topics[0] for log, _ in CASES} == READER_BY_TOPIC.keys()


def test_every_event_field_is_decoded():
    for _, event in CASES:
        values = [getattr(event, field.name) for field in fields(event)]
        assert None not in values, event


def test_deployed_code_contains_every_decoded_event():
    code = load_artifact(ORACLE_CONTRACT)["deployedBytecode"]
    missing = {
        event.name for event, _ in iterate_oracle_event_readers() if event.digest[2:] not in code
    }
    assert missing == CONSTRUCTOR_ONLY_EVENTS


@pytest.mark.parametrize("length", [2 + 64 * 4, 2 + 64 * 6, 40])
def test_log_of_wrong_length_is_rejected(length: int):
    log = to_mined_log(CASES[0][0])
    log.data = (log.data + 64 * "0")[:length]

    with pytest.raises(ValueError, match=r"length|short"):
        READER_BY_TOPIC[log.topics[0]](log)


def test_signer_with_dirty_high_bytes_is_rejected():
    log = to_mined_log(CASES[9][0])
    log.data = log.data.replace("0" * 24 + N[2:], "1" * 24 + N[2:], 1)

    with pytest.raises(MalformedError, match="unused bits"):
        READER_BY_TOPIC[log.topics[0]](log)
