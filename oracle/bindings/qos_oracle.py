"""The oracle contract as the publisher sees it: how it stands, and the calls we make of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oracle.bindings.codec import call_input, call_output
from oracle.bindings.contract_errors import CONTRACT
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import EndpointCaller, PoolView, understood
from oracle.rpc.rpc_errors import RevertError
from oracle.signing.typed_data import KickStatement, ReportStatement
from oracle.txmgr.client.receipts import newest_block

# Digits of calldata: `0x` and the selector, then words.
_SELECTOR, _WORD = 10, 64


@dataclass(frozen=True, slots=True)
class ContractHead:
    """QoSOracle.Head, field by field; times in unix seconds."""

    round: int
    as_of: int
    pushed_at: int
    paused_until: int
    node_count: int
    quorum: int
    signer_count: int
    rules: int
    kicks_paused: bool


@dataclass(frozen=True, slots=True)
class ContractLimits:
    """QoSOracle.Limits, field by field; times in seconds, the window in blocks."""

    max_step: int
    max_words: int
    min_interval: int
    anchor_window: int
    max_age_seconds: int
    kick_below: int
    veto_delay: int
    kick_rounds: int
    kick_window: int
    max_kicks_per_round: int
    min_active: int


@dataclass(frozen=True, slots=True)
class ContractStatus:
    """The contract at one block, the newest that the endpoint has."""

    block: BlockRef
    head: ContractHead
    limits: ContractLimits
    last_report: Hash
    rules_hash: Hash

    @property
    def is_open(self) -> bool:
        """Whether it would listen to a round now: no pause, and the interval is over."""
        head, now = self.head, self.block.time
        return now >= head.paused_until and now >= head.pushed_at + self.limits.min_interval


@dataclass(frozen=True, slots=True)
class ContractConfiguration:
    """What `contract check` compares with the configuration."""

    code: str
    network: Address
    admin: Address
    pauser: Address
    vetoer: Address
    signers: tuple[Address, ...]
    quorum: int
    contract_status: ContractStatus


class OracleContract:
    """Reads the contract at an address; every read is pinned to one block."""

    def __init__(self, lines: PoolView, address: Address) -> None:
        self._lines = lines
        self.address = address

    def contract_status(self) -> ContractStatus:
        """Return how the contract stands at the newest block.

        Raises:
            TransientError: no endpoint answers as one that has it; whether its address is right is
                asked at every start, and what was seen there is not gone for good.
        """
        block = newest_block(self._lines)
        head, limits, last, rules = self._read(block, "head", "limits", "lastReport", "rulesHash")
        return ContractStatus(
            block, ContractHead(*head[0]), ContractLimits(*limits[0]), _hash(last), _hash(rules)
        )

    def kick_tokens(self) -> int:
        """Return how many kickouts the bucket still allows at the newest block.

        Raises:
            TransientError: see `contract_status`.
        """
        (bucket,) = self._read(newest_block(self._lines), "bucket")
        return int(bucket[0][1])

    def words(self, indexes: Sequence[int], block: BlockRef) -> dict[int, int]:
        """Return the words of lanes that the contract holds at a block, by their index.

        Raises:
            TransientError: no endpoint answers.
        """
        asked = [
            (
                "eth_call",
                (
                    {"to": self.address, "data": call_input(CONTRACT, "wordsAt", index, 1)},
                    hex(block.number),
                ),
            )
            for index in indexes
        ]
        answers = self._lines.first(asked) if asked else []
        with understood("words of lanes"):
            return {
                index: int(call_output(CONTRACT, "wordsAt", answer)[0][0])
                for index, answer in zip(indexes, answers, strict=True)
            }

    def constitution(self) -> ContractConfiguration:
        """Return who may do what, and under which code. As `contract_status` raises."""
        contract_status = self.contract_status()
        names = ("NETWORK", "admin", "pauser", "vetoer", "signers", "quorum")
        network, admin, pauser, vetoer, signers, quorum = self._read(contract_status.block, *names)
        code = self._lines.ask("eth_getCode", self.address, hex(contract_status.block.number))
        if not isinstance(code, str):
            raise TransientError(self._not_ours)
        return ContractConfiguration(
            code=code,
            network=Address(network[0]),
            admin=Address(admin[0]),
            pauser=Address(pauser[0]),
            vetoer=Address(vetoer[0]),
            signers=tuple(Address(signer) for signer in signers[0]),
            quorum=quorum[0],
            contract_status=contract_status,
        )

    def _read(self, block: BlockRef, *functions: str) -> list[tuple[Any, ...]]:
        asked = [
            (
                "eth_call",
                ({"to": self.address, "data": call_input(CONTRACT, name)}, hex(block.number)),
            )
            for name in functions
        ]

        def told(line: EndpointCaller) -> list[tuple[Any, ...]]:
            try:
                answers = line.ask_all(asked)
            except RevertError:
                raise TransientError(self._not_ours) from None
            if any(answer in {"0x", None} for answer in answers):
                raise TransientError(
                    f"{line.name} shows no QoSOracle at {self.address}: it has lost the chain, or "
                    "oracle.address is wrong"
                )
            with understood(f"a QoSOracle at {self.address}"):
                return [
                    call_output(CONTRACT, name, answer)
                    for name, answer in zip(functions, answers, strict=True)
                ]

        # Null, or no code: it has lost the chain, or is not there yet; another one may tell.
        return self._lines.first_that(told)

    @property
    def _not_ours(self) -> str:
        return f"{self.address} does not answer as a QoSOracle: check oracle.address"


def push_call(statement: ReportStatement, signatures: bytes) -> str:
    """Return the calldata that pushes a signed report."""
    return call_input(
        CONTRACT,
        "push",
        statement.round,
        statement.rules,
        statement.as_of,
        bytes.fromhex(statement.as_of_hash[2:]),
        statement.deadline,
        statement.records,
        signatures,
    )


def propose_call(statement: KickStatement, signatures: bytes) -> str:
    """Return the calldata that proposes a signed kickout."""
    return call_input(
        CONTRACT,
        "proposeKick",
        statement.round,
        bytes.fromhex(statement.report[2:]),
        statement.index,
        bytes.fromhex(statement.evidence[2:]),
        statement.deadline,
        signatures,
    )


def proposal_in(calldata: str) -> KickStatement:
    """Return the kickout that a call of `propose_call` proposes."""
    around, report, index, evidence, deadline = (
        calldata[_SELECTOR + _WORD * place : _SELECTOR + _WORD * (place + 1)] for place in range(5)
    )
    return KickStatement(
        round=int(around, 16),
        report=Hash(f"0x{report}"),
        index=int(index, 16),
        evidence=Hash(f"0x{evidence}"),
        deadline=int(deadline, 16),
    )


def execute_call(index: int) -> str:
    """Return the calldata that executes the kickout of a lane."""
    return call_input(CONTRACT, "executeKick", index)


def cancel_call(index: int, why: str) -> str:
    """Return the calldata that cancels it; `why` has at most 31 letters."""
    return call_input(CONTRACT, "cancelKick", index, why.encode().ljust(32, b"\0"))


def _hash(answer: tuple[Any, ...]) -> Hash:
    return Hash("0x" + bytes(answer[0]).hex())
