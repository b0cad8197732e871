"""Drives a QoSOracle: what its signers sign, what a transmitter sends, what a node's lane says."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import Web3
from web3.contract import Contract

from tests.support.evm.chain import Chain, Receipt, encoded

ZERO = "0x" + 40 * "0"
NO_DIGEST = bytes(32)
RULES_HASH = bytes.fromhex("ab" * 32)
EVIDENCE = bytes.fromhex("e1" * 32)

# Sorted as the contract lists them: signer i has bit i.
SIGNERS: tuple[LocalAccount, ...] = tuple(
    Account.from_key(Web3.keccak(text=f"signer {number}")) for number in range(3)
)
STRANGER: LocalAccount = Account.from_key(Web3.keccak(text="stranger"))

# Limits as the first deployment of a network would have them, times as short as tests like.
LIMITS: dict[str, int] = {
    "maxStep": 10_000,
    "maxWords": 100,
    "minInterval": 10,
    "anchorWindow": 8_000,
    "maxAgeSeconds": 7_200,
    "kickBelow": 2_000,
    "vetoDelay": 600,
    "kickRounds": 2,
    "kickWindow": 86_400,
    "maxKicksPerRound": 2,
    "minActive": 3,
}

REPORT_FIELDS = [
    {"name": "round", "type": "uint32"},
    {"name": "rules", "type": "uint16"},
    {"name": "rulesHash", "type": "bytes32"},
    {"name": "prev", "type": "bytes32"},
    {"name": "asOf", "type": "uint48"},
    {"name": "asOfHash", "type": "bytes32"},
    {"name": "deadline", "type": "uint40"},
    {"name": "dataHash", "type": "bytes32"},
]
KICK_FIELDS = [
    {"name": "round", "type": "uint32"},
    {"name": "report", "type": "bytes32"},
    {"name": "index", "type": "uint256"},
    {"name": "evidence", "type": "bytes32"},
    {"name": "deadline", "type": "uint40"},
]


def word(*lanes: int, **at: int) -> int:
    """Lanes from the lowest index on; or by name: word(l3=5) sets lane 3."""
    placed = dict(enumerate(lanes)) | {int(name[1:]): lane for name, lane in at.items()}
    return sum(lane << 16 * place for place, lane in placed.items())


def records(*words: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">I", index)[1:] + lanes.to_bytes(32) for index, lanes in words)


def node(number: int) -> str:
    """The address that PlainNetwork.joinMany(1, ...) gives to the node of this number, from 0."""
    return Web3.to_checksum_address(f"0x{number + 1:040x}")


@dataclass(frozen=True)
class Report:
    """One report with the domain it is signed for; replace(report, round=7) makes a wrong one."""

    round: int
    rules: int
    rules_hash: bytes
    prev: bytes
    as_of: int
    as_of_hash: bytes
    deadline: int
    records: bytes
    chain_id: int
    contract: str

    def signed_by(self, *signers: LocalAccount) -> bytes:
        message = {
            "round": self.round,
            "rules": self.rules,
            "rulesHash": self.rules_hash,
            "prev": self.prev,
            "asOf": self.as_of,
            "asOfHash": self.as_of_hash,
            "deadline": self.deadline,
            "dataHash": Web3.keccak(self.records),
        }
        kinds = {"Report": REPORT_FIELDS}
        return _signed(self.chain_id, self.contract, kinds, message, signers)


def _signed(
    chain_id: int,
    contract: str,
    kinds: dict[str, Any],
    message: dict[str, Any],
    signers: Iterable[LocalAccount],
) -> bytes:
    domain = {
        "name": "QoSOracle",
        "version": "1",
        "chainId": chain_id,
        "verifyingContract": contract,
    }
    return b"".join(
        bytes(signer.sign_typed_data(domain, kinds, message).signature) for signer in signers
    )


@dataclass(frozen=True)
class Oracle:
    """The contract under test, its network, and the accounts that hold its roles."""

    chain: Chain
    contract: Contract
    network: Contract
    admin: str
    pauser: str
    vetoer: str
    transmitter: str

    # --- reading ---

    def read(self, name: str, *args: Any) -> Any:
        """Calls a view in the last block, at the last block's time."""
        return getattr(self.contract.functions, name)(*args).call(block_identifier="latest")

    @property
    def round(self) -> int:
        return int(self.read("head")[0])

    def lane(self, index: int) -> int:
        return int(self.read("laneAt", index))

    def score(self, of: str) -> tuple[bool, bool, int]:
        """(known, selectable, qos)."""
        known, selectable, qos, _, _ = self.read("scoreOf", of)
        return known, selectable, qos

    # --- reports ---

    def report(self, *words: tuple[int, int], **changes: Any) -> Report:
        """A report that the contract accepts now, as of the block before the last."""
        changes.setdefault("as_of", self.chain.block - 1)
        block = self.chain.rpc("eth_getBlockByNumber", hex(changes["as_of"]), False)
        right = Report(
            round=self.round + 1,
            rules=1,
            rules_hash=RULES_HASH,
            prev=bytes(self.read("lastReport")),
            as_of=changes["as_of"],
            as_of_hash=bytes.fromhex(block["hash"][2:]),
            deadline=self.chain.time + 3_600,
            records=records(*words),
            chain_id=int(self.chain.rpc("eth_chainId"), 16),
            contract=self.contract.address,
        )
        return replace(right, **changes)

    def call(self, report: Report, signatures: bytes | None = None) -> Any:
        signatures = report.signed_by(*SIGNERS[:2]) if signatures is None else signatures
        return self.contract.functions.push(
            report.round,
            report.rules,
            report.as_of,
            report.as_of_hash,
            report.deadline,
            report.records,
            signatures,
        )

    def push(self, report: Report, signatures: bytes | None = None) -> Receipt:
        return self.chain.send(self.call(report, signatures), sender=self.transmitter)

    def reported(self, *words: tuple[int, int], **changes: Any) -> Receipt:
        """One more round, in time: mines what the as-of needs and waits for the interval."""
        self.chain.mine(2)
        report = self.report(*words, **changes)
        self.chain.later(LIMITS["minInterval"])
        return self.push(report)

    # --- kickouts ---

    def signed_kick(
        self, index: int, signers: Sequence[LocalAccount] = SIGNERS[:2], **changes: Any
    ) -> Any:
        """The call proposeKick, signed on the current round."""
        right = {
            "round": self.round,
            "report": bytes(self.read("lastReport")),
            "evidence": EVIDENCE,
            "deadline": self.chain.time + 3_600,
        }
        message = {"index": index, **right, **changes}
        chain_id = int(self.chain.rpc("eth_chainId"), 16)
        kinds = {"Kick": KICK_FIELDS}
        signatures = _signed(chain_id, self.contract.address, kinds, message, signers)
        return self.contract.functions.proposeKick(
            *(message[field["name"]] for field in KICK_FIELDS), signatures
        )

    def propose(self, index: int, **changes: Any) -> Receipt:
        return self.send(self.signed_kick(index, **changes))

    def execute(self, index: int) -> Receipt:
        return self.do("executeKick", index)

    # --- any other call ---

    def do(self, name: str, *args: Any, sender: str | None = None) -> Receipt:
        return self.send(getattr(self.contract.functions, name)(*args), sender=sender)

    def send(self, call: Any, sender: str | None = None) -> Receipt:
        return self.chain.send(call, sender=sender or self.transmitter)

    def by_network(self, name: str, *args: Any) -> Receipt:
        """A function of the network, such as join or quit."""
        return self.send(getattr(self.network.functions, name)(*args))

    def forwarded(self, call: Any) -> Receipt:
        """The call in the network's name: msg.sender is then a contract."""
        return self.by_network("forward", call.address, encoded(call))


def setup(network: str, accounts: Sequence[str], **changes: Any) -> dict[str, Any]:
    """The constructor's argument; accounts: admin, pauser, vetoer."""
    right = {
        "network": network,
        "admin": accounts[0],
        "pauser": accounts[1],
        "vetoer": accounts[2],
        "signers": [signer.address for signer in SIGNERS],
        "quorum": 2,
        "rules": 1,
        "rulesHash": RULES_HASH,
        "limits": LIMITS,
        "bucketMost": 2,
        "bucketPerFrame": 1,
        "bucketFrame": 3_600,
        "arbitrum": False,
    }
    return right | changes


def as_tuple(fields: dict[str, Any]) -> tuple[Any, ...]:
    """A struct as web3 takes it in a constructor; the keys stand in the order of the fields."""
    return tuple(as_tuple(part) if isinstance(part, dict) else part for part in fields.values())


def deployed(chain: Chain, **changes: Any) -> Oracle:
    """An oracle and a plain network that know each other; nobody has joined."""
    network = chain.deploy("testing/PlainNetwork")
    arguments = setup(network.address, chain.accounts[1:4], **changes)
    contract = chain.deploy("QoSOracle", as_tuple(arguments))
    chain.send(network.functions.setOracle(contract.address))
    return Oracle(chain, contract, network, *chain.accounts[1:5])
