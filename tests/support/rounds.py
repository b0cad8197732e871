"""Rounds as the contract accepts them: the contract's events for a report."""

from collections.abc import Mapping
from dataclasses import replace

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import (
    NO_REGISTRATIONS,
    ContractEvent,
    NodeRegistered,
    Registrations,
    RoundAccepted,
)
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, Hash
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_data import decode_records
from oracle.domain.reports.rounds import Rounds


def address(number: int) -> Address:
    """Return a unique address."""
    return Address(f"0x{number:040x}")


def accepted(
    number: int,
    words: Mapping[int, int],
    registrations: Registrations = NO_REGISTRATIONS,
    *,
    time: int = 0,
) -> RoundAccepted:
    """Return round `number` as decoded from the contract's log and its call, in block `number`."""
    return RoundAccepted(
        at=Position(number, 0, 99),
        time=time,
        round=number,
        as_of=0,
        as_of_hash=ZERO_HASH,
        data_hash=ZERO_HASH,
        digest=Hash(f"0x{number:064x}"),
        config=Hash("0x" + 64 * "c"),
        transmitter=ZERO_ADDRESS,
        registrations=registrations,
        words=tuple(sorted(words.items())),
    )


def round_of(rounds: Rounds, accepted_round: RoundAccepted) -> list[ContractEvent]:
    """Return a round and its index events, on top of the given state."""
    at = accepted_round.at
    node_by_index = accepted_round.registrations.compute_assigned_indexes(
        rounds.index_by_node, rounds.node_count
    )
    index_events: list[ContractEvent] = [
        NodeRegistered(Position(at.block, at.tx, place), accepted_round.time, node, index)
        for place, (index, node) in enumerate(node_by_index.items())
    ]
    return [*index_events, accepted_round]


def acceptance(rounds: Rounds, report: Report, block: int, time: int) -> list[ContractEvent]:
    """Return the contract's events when it accepts a report in a block."""
    words = dict(decode_records(report.records))
    accepted_round = accepted(report.head_round + 1, words, report.registrations, time=time)
    in_block = replace(accepted_round, at=Position(block, 0, 99), as_of=report.as_of.number)
    return round_of(rounds, in_block)


def take(rounds: Rounds, accepted_round: RoundAccepted) -> None:
    """Fold a round together with its index events."""
    rounds.fold_block(accepted_round.at.block, round_of(rounds, accepted_round), journal=False)


def registered(*nodes: Address, words: Mapping[int, int] | None = None) -> Rounds:
    """Return the contract state after a first round that gave these nodes indexes from 0 on."""
    rounds = Rounds()
    take(rounds, accepted(1, words or {}, Registrations((), nodes)))
    return rounds
