"""Drives a QoSRoots: rounds of leaves, kickouts by proof, and the calls of its roles.

Leaves, roots and proofs come from oracle/domain/roots. The signed type is written apart from the
daemon's own code; it stands in docs/reference/report-format.md#roots.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eth_account.signers.local import LocalAccount
from web3.contract import Contract

from oracle.domain.roots.leaves import NodeLeaf
from tests.contracts.oracle_signing import SIGNERS, sign_typed_data
from tests.contracts.roots.root_rounds import RootRound
from tests.support.evm.chain import Chain, Receipt, encode_calldata

ZERO = "0x" + 40 * "0"
NO_ROOT = bytes(32)
RULES_HASH = bytes.fromhex("ab" * 32)
FOR_EVER = 2**40 - 1
KEPT, LAG = 256, 2

# As in a network's first deployment, with short times.
LIMITS: dict[str, int] = {
    "minInterval": 10,
    "anchorWindow": 8_000,
    "maxAgeSeconds": 7_200,
    "kickBelow": 2_000,
    "vetoDelay": 600,
    "kickRounds": 2,
    "minOpen": 3,
}
# Every limit that there can be is within these.
FLOORS: dict[str, int] = {
    "minInterval": 0,
    "anchorWindow": 0,
    "maxAgeSeconds": 2**24 - 1,
    "kickBelow": 65_535,
    "vetoDelay": 0,
    "kickRounds": 0,
    "minOpen": 0,
}
# The pauser cannot tighten beyond these.
TIGHTEST: dict[str, int] = {
    "minInterval": 600,
    "anchorWindow": 8_000,
    "maxAgeSeconds": 3_600,
    "kickBelow": 1_000,
    "vetoDelay": 86_400,
    "kickRounds": 6,
    "minOpen": 10,
}
KICK_LIMITS: dict[str, int] = {
    "kickGas": 200_000,
    "kickCooldown": FOR_EVER,
    "bucketMost": 2,
    "bucketPerFrame": 1,
    "bucketFrame": 3_600,
}
KICK_FLOORS: dict[str, int] = {
    "kickGas": 0,
    "kickCooldown": FOR_EVER,
    "bucketMost": 1_000,
    "bucketPerFrame": 1_000,
    "bucketFrame": 1,
}

REPORT_FIELDS = [
    {"name": "config", "type": "bytes32"},
    {"name": "round", "type": "uint32"},
    {"name": "prev", "type": "bytes32"},
    {"name": "asOf", "type": "uint48"},
    {"name": "asOfHash", "type": "bytes32"},
    {"name": "deadline", "type": "uint40"},
    {"name": "root", "type": "bytes32"},
]


@dataclass(frozen=True)
class RootReport:
    """A report with the domain that it is signed for; replace(report, round=7) makes a wrong one.

    `count` is the configuration's number, which is sent; `config` is its digest, which is signed.

    `count` is the configuration's number, which is sent; `config` is its digest, which is signed.
    """

    config: bytes
    count: int
    round: int
    prev: bytes
    as_of: int
    as_of_hash: bytes
    deadline: int
    root: bytes
    domain: tuple[int, str]
    version: str = "3"

    @property
    def abi(self) -> tuple[Any, ...]:
        return (
            self.round,
            self.count,
            self.as_of,
            self.as_of_hash,
            self.deadline,
            self.root,
        )

    def signed_by(self, *signers: LocalAccount) -> bytes:
        message = {
            "config": self.config,
            "round": self.round,
            "prev": self.prev,
            "asOf": self.as_of,
            "asOfHash": self.as_of_hash,
            "deadline": self.deadline,
            "root": self.root,
        }
        kinds = {"Report": REPORT_FIELDS}
        return sign_typed_data(self.domain, kinds, message, signers, version=self.version)


@dataclass
class RootsOracle:
    """The contract under test, its network, the accounts that hold its roles,
    and the last round.
    """

    chain: Chain
    contract: Contract
    network: Contract
    admin: str
    pauser: str
    vetoer: str
    transmitter: str
    signers: Sequence[LocalAccount] = field(default=SIGNERS[:2])
    accepted: RootRound | None = None

    # --- reading ---

    def read(self, name: str, *args: Any) -> Any:
        """Call a view as of the last block and its time."""
        return getattr(self.contract.functions, name)(*args).call(block_identifier="latest")

    def named(self, view: str, *args: Any) -> dict[str, Any]:
        """Return a view's struct by field name."""
        (output,) = self.contract.get_function_by_name(view).abi["outputs"]
        names = (part["name"] for part in output["components"])
        return dict(zip(names, self.read(view, *args), strict=True))

    def head(self, name: str) -> int:
        return int(self.named("head")[name])

    @property
    def round(self) -> int:
        return self.head("round")

    @property
    def last_round(self) -> RootRound:
        assert self.accepted is not None
        return self.accepted

    @property
    def domain(self) -> tuple[int, str]:
        return self.chain.id, self.contract.address

    def node(self, seat: int) -> str:
        return self.chain.web3.to_checksum_address(self.last_round.leaves[seat].node)

    def kick(self, seat: int) -> dict[str, Any]:
        return self.named("kickOf", self.node(seat))

    def is_pending(self, seat: int) -> bool:
        return bool(self.read("isKickPending", self.node(seat)))

    def is_expelled(self, seat: int) -> bool:
        return bool(self.read("isExpelled", self.node(seat)))

    # --- reports ---

    def make_round(self, leaves: Sequence[NodeLeaf], as_of: int | None = None) -> RootRound:
        """Return the next round with these leaves, as of the block before the last."""
        number = self.chain.block - 1 if as_of is None else as_of
        return RootRound(leaves, *self.domain, self.round + 1, number)

    def report(self, root: bytes, **changes: Any) -> RootReport:
        """Return a report that the contract would accept now."""
        changes.setdefault("as_of", self.chain.block - 1)
        block = self.chain.rpc("eth_getBlockByNumber", hex(changes["as_of"]), False)
        head = self.named("head")
        right = RootReport(
            config=bytes(self.read("configDigest")),
            count=int(head["configCount"]),
            round=int(head["round"]) + 1,
            prev=bytes(self.read("lastRoot")),
            as_of=changes["as_of"],
            as_of_hash=bytes.fromhex(block["hash"][2:]),
            deadline=self.chain.time + 3_500,
            root=root,
            domain=self.domain,
        )
        return replace(right, **changes)

    def call(self, report: RootReport, signatures: bytes | None = None) -> Any:
        signatures = report.signed_by(*self.signers) if signatures is None else signatures
        return self.contract.functions.push(report.abi, signatures)

    def push(self, report: RootReport, signatures: bytes | None = None) -> Receipt:
        return self.send(self.call(report, signatures))

    def push_leaves(self, leaves: Sequence[NodeLeaf]) -> Receipt:
        """Push one more round in time: mine the blocks that the as-of needs,
        and wait for the interval.
        """
        self.chain.mine(2)
        candidate = self.make_round(leaves)
        report = self.report(candidate.root, as_of=candidate.as_of)
        turn = self.head("pushedAt") + self.named("limits")["minInterval"]
        self.chain.at(max(turn, self.chain.time + 1))
        receipt = self.push(report)
        self.accepted = candidate
        return receipt

    # --- kickouts ---

    def accuse(self, seat: int, rounds: RootRound | None = None) -> Receipt:
        return self.do("accuse", *(rounds or self.last_round).proven(seat))

    def execution(self, seat: int, rounds: RootRound | None = None) -> Any:
        """Return the call executeKick with the proof of a round, the last one by default."""
        proven = rounds or self.last_round
        return self.contract.functions.executeKick(*proven.proven(seat), proven.summary_abi)

    def execute(self, seat: int, rounds: RootRound | None = None) -> Receipt:
        return self.send(self.execution(seat, rounds))

    def clear(self, seat: int, rounds: RootRound | None = None) -> Receipt:
        return self.do("clear", *(rounds or self.last_round).proven(seat))

    def veto(self, seat: int, reason: bytes = bytes(32), sender: str = "") -> Receipt:
        return self.do("veto", self.node(seat), reason, sender=sender or self.vetoer)

    def retry(self, seat: int) -> Receipt:
        return self.do("retryKick", self.node(seat))

    # --- any other call ---

    def do(self, name: str, *args: Any, sender: str | None = None) -> Receipt:
        return self.send(getattr(self.contract.functions, name)(*args), sender=sender)

    def set_limits(self, **changes: int) -> Receipt:
        """Set limits that differ from LIMITS in these fields."""
        new_limits = tuple((LIMITS | changes).values())
        return self.do("setLimits", new_limits, sender=self.admin)

    def send(self, call: Any, sender: str | None = None) -> Receipt:
        return self.chain.send(call, sender=sender or self.transmitter)

    def by_network(self, name: str, *args: Any) -> Receipt:
        return self.send(getattr(self.network.functions, name)(*args))

    def forward(self, call: Any) -> Receipt:
        """Send the call from the network's contract."""
        return self.by_network("forward", call.address, encode_calldata(call))


def as_tuple(fields: dict[str, Any]) -> tuple[Any, ...]:
    """Return a struct in web3's form for a constructor; the keys are in the fields' order."""
    return tuple(as_tuple(part) if isinstance(part, dict) else part for part in fields.values())


def make_setup(target: str, accounts: Sequence[str], **changes: Any) -> dict[str, Any]:
    """Return the constructor's argument; `accounts`: admin, pauser, vetoer."""
    right = {
        "admin": accounts[0],
        "pauser": accounts[1],
        "vetoer": accounts[2],
        "target": target,
        "signers": [signer.address for signer in SIGNERS],
        "quorum": 2,
        "rulesHash": RULES_HASH,
        "kept": KEPT,
        "lag": LAG,
        "limits": LIMITS,
        "floors": FLOORS,
        "tightest": TIGHTEST,
        "kickLimits": KICK_LIMITS,
        "kickFloors": KICK_FLOORS,
        "expelled": [],
        "arbitrum": False,
    }
    return right | changes


def deploy_roots(chain: Chain, **changes: Any) -> RootsOracle:
    """Deploy an oracle and a plain network that are linked; the network has no member."""
    network = chain.deploy("testing/PlainNetwork")
    arguments = make_setup(network.address, chain.accounts[1:4], **changes)
    contract = chain.deploy("roots/QoSRoots", as_tuple(arguments))
    chain.send(network.functions.setOracle(contract.address))
    admin, pauser, vetoer, transmitter = chain.accounts[1:5]
    return RootsOracle(chain, contract, network, admin, pauser, vetoer, transmitter)
