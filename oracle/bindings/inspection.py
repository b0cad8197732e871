"""Compares the contract on chain with the configuration, for `contract check`."""

from dataclasses import dataclass

import msgspec
from eth_utils.crypto import keccak

from oracle.bindings.contract_errors import CONTRACT
from oracle.bindings.qos_oracle import ContractConfiguration, OracleContract
from oracle.domain.ids import ZERO_ADDRESS, Address, Hash
from oracle.domain.reports.lanes import LANES_PER_WORD
from oracle.domain.reports.report import ReportSettings
from oracle.errors import TransientError
from oracle.resources import shipped
from oracle.rpc.fanout import PoolView
from oracle.signing.typed_data import MAX_TTL_SECONDS


@dataclass(frozen=True, slots=True)
class Expected:
    """The configuration that the contract must match; keys that are None are not compared."""

    # The contract that kickouts may call, besides none; None: not compared.
    target: Address | None
    rules_hash: Hash
    settings: ReportSettings
    signer: Address | None
    transmitter: Address | None
    # How many blocks below the head reports are anchored; None: not compared.
    anchor_window: int | None = None
    # Whether other reporters are configured, whose signatures can be gathered.
    has_peers: bool = True


@dataclass(frozen=True, slots=True)
class ContractMismatch:
    """One difference between the contract and the configuration; any prevents publishing."""

    what: str
    expected: str
    found: str

    def line(self) -> str:
        """Return the mismatch in one line."""
        return f"{self.what}: expected {self.expected}, found {self.found}"


def inspected(
    lines: PoolView, address: Address, expected: Expected
) -> tuple[ContractConfiguration, list[ContractMismatch]]:
    """Return the contract's configuration and its mismatches with the expected one.

    A match at one endpoint is enough. A mismatch counts only if all endpoints show it, because a
    single one may lag behind the chain.

    Raises:
        TransientError: no endpoint shows a match, and at least one does not respond.
    """
    told: list[tuple[ContractConfiguration, list[ContractMismatch]]] = []
    silences: list[TransientError] = []
    for one in lines.singly():
        try:
            found = OracleContract(one, address).constitution()
        except TransientError as error:
            silences.append(error)
            continue
        told.append((found, differences(found, expected)))
        if not told[-1][1]:
            return told[-1]
    if not silences:
        return told[0]
    alone = "; ".join(difference.line() for _, each in told[:1] for difference in each)
    raise TransientError(f"{silences[0]}{f'; another one says: {alone}' if alone else ''}")


def differences(found: ContractConfiguration, expected: Expected) -> list[ContractMismatch]:
    """Return everything that prevents this daemon from publishing to this contract."""
    compared = [
        ("code hash", shipped_code_hash(), code_hash(found.code)),
        ("rulesHash", expected.rules_hash, found.contract_status.rules_hash),
        (
            "limits.kickBelow",
            expected.settings.kick_below,
            found.contract_status.limits.kick_below,
        ),
    ]
    return [
        *(
            ContractMismatch(what, str(want), str(got))
            for what, want, got in compared
            if want != got
        ),
        *_of_target(found, expected),
        *_of_keys(found, expected),
        *_of_limits(found, expected),
    ]


def shipped_code_hash() -> Hash:
    """Return the hash of the shipped contract code, with its immutables set to zero."""
    written = msgspec.json.decode(shipped(f"abi/{CONTRACT}.json").read_bytes())
    return code_hash(written["deployedBytecode"])


def code_hash(code: str) -> Hash:
    """Return keccak256 of deployed code with the constructor's immutables set to zero."""
    masked = bytearray(bytes.fromhex(code.removeprefix("0x")))
    for start, length in _immutables():
        if start + length <= len(masked):
            masked[start : start + length] = bytes(length)
    return Hash("0x" + keccak(bytes(masked)).hex())


def _of_target(found: ContractConfiguration, expected: Expected) -> list[ContractMismatch]:
    target = expected.target
    if target is None or found.target in {target, ZERO_ADDRESS}:
        return []
    return [ContractMismatch("target", f"{target}, or nobody", found.target)]


def _of_keys(found: ContractConfiguration, expected: Expected) -> list[ContractMismatch]:
    different = []
    if expected.signer is not None and expected.signer not in found.signers:
        signers = ", ".join(found.signers)
        different.append(ContractMismatch("signers", f"{expected.signer} among them", signers))
    if not 1 <= found.quorum <= len(found.signers):
        most = f"1 to {len(found.signers)}, as many as there are signers"
        different.append(ContractMismatch("quorum", most, str(found.quorum)))
    own = 0 if expected.signer is None else 1
    if expected.transmitter is not None and not expected.has_peers and found.quorum > own:
        most = f"{own} without [reporters] peers, whose signatures are gathered"
        different.append(ContractMismatch("quorum", most, str(found.quorum)))
    for role, holder in (("admin", found.admin), ("pauser", found.pauser)):
        ours = {expected.signer, expected.transmitter} - {None}
        if holder in ours and holder != ZERO_ADDRESS:
            different.append(
                ContractMismatch(role, "a key that this daemon does not hold", holder)
            )
    return different


def _of_limits(found: ContractConfiguration, expected: Expected) -> list[ContractMismatch]:
    limits, settings = found.contract_status.limits, expected.settings
    different = []
    if expected.anchor_window is not None and limits.anchor_window < expected.anchor_window:
        least = f"at least oracle.anchor_window, {expected.anchor_window} blocks"
        different.append(ContractMismatch("limits.anchorWindow", least, str(limits.anchor_window)))
    words_there_are = -(-found.contract_status.head.node_count // LANES_PER_WORD)
    if limits.max_words < min(settings.max_words, words_there_are):
        least = f"at least oracle.max_words, {settings.max_words}"
        different.append(ContractMismatch("limits.maxWords", least, str(limits.max_words)))
    if settings.ttl_seconds > MAX_TTL_SECONDS:
        most = f"at most {MAX_TTL_SECONDS} s, the longest that a signature is good for"
        different.append(
            ContractMismatch("oracle.report_ttl_seconds", most, str(settings.ttl_seconds))
        )
    if limits.min_interval > settings.period_seconds:
        most = f"at most the period of {settings.period_seconds} s"
        different.append(ContractMismatch("limits.minInterval", most, f"{limits.min_interval} s"))
    return different


def _immutables() -> list[tuple[int, int]]:
    written = msgspec.json.decode(shipped(f"abi/{CONTRACT}.json").read_bytes())
    return [
        (place["start"], place["length"])
        for places in written["immutableReferences"].values()
        for place in places
    ]
