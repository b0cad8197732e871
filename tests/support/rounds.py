"""Rounds as the contract accepts them: the contract's event for a report."""

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.report import Report

# The configuration that every round of these tests is signed under.
CONFIG = Hash("0x" + 64 * "c")
# The number of roots that a contract of these tests keeps.
KEPT_ROUNDS = 256


def make_address(number: int) -> Address:
    """Return a unique address."""
    return Address(f"0x{number:040x}")


def build_accepted_round(
    number: int,
    *,
    time: int = 0,
    as_of: int = 0,
    as_of_hash: Hash = ZERO_HASH,
    root: Hash | None = None,
) -> RoundAccepted:
    """Return round `number` as decoded from the contract's log, in block `number`."""
    return RoundAccepted(
        at=Position(number, 0, 99),
        time=time,
        round=number,
        as_of=as_of,
        as_of_hash=as_of_hash,
        root=Hash(f"0x{number:064x}") if root is None else root,
        config=CONFIG,
        signer_bitmap=1,
    )


def build_acceptance(report: Report, block: int, time: int) -> RoundAccepted:
    """Return the contract's event when it accepts a report in a block."""
    return RoundAccepted(
        at=Position(block, 0, 99),
        time=time,
        round=report.head_round + 1,
        as_of=report.as_of.number,
        as_of_hash=report.as_of.hash,
        root=report.root,
        config=CONFIG,
        signer_bitmap=1,
    )


def build_contract_state(*accepted_rounds: RoundAccepted) -> ContractState:
    """Return the state of a contract that accepted these rounds, oldest first."""
    return ContractState(KEPT_ROUNDS, accepted_rounds=accepted_rounds)
