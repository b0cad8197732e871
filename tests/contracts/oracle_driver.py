"""Drives a QoSOracle: what its signers sign, what a transmitter sends, what a node's lane says.

What is signed and how its bytes look: tests/contracts/oracle_signing.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eth_account.signers.local import LocalAccount
from web3 import Web3
from web3.contract import Contract

from tests.contracts.oracle_signing import SIGNERS, Kick, Report, Taker, data, word
from tests.support.evm.chain import Chain, Receipt, encoded

ZERO = "0x" + 40 * "0"
NO_DIGEST = bytes(32)
RULES_HASH = bytes.fromhex("ab" * 32)
EVIDENCE = bytes.fromhex("e1" * 32)
FOR_EVER = 2**40 - 1

# What the oracle of the fixtures has given every node in its first round: a QoS of 0.5.
START = 5_002

# Limits as the first deployment of a network would have them, times as short as tests like. Only
# that any number of lanes may fall at once is a test's wish: see test_oracle_falls.py.
LIMITS: dict[str, int] = {
    "maxWords": 100,
    "maxNewNodes": 200,
    "minInterval": 10,
    "anchorWindow": 8_000,
    "maxAgeSeconds": 7_200,
    "kickBelow": 2_000,
    "vetoDelay": 600,
    "kickRounds": 2,
    "kickWindow": 86_400,
    "maxKicksPerRound": 2,
    "minOpen": 3,
    "fallShare": 10_000,
    "bigFall": 2_500,
}
# Every limit that there can be is within these.
FLOORS: dict[str, int] = {
    "maxWords": 65_535,
    "maxNewNodes": 65_535,
    "minInterval": 0,
    "anchorWindow": 0,
    "maxAgeSeconds": 2**24 - 1,
    "kickBelow": 65_535,
    "vetoDelay": 0,
    "kickRounds": 0,
    "kickWindow": 2**24 - 1,
    "maxKicksPerRound": 255,
    "minOpen": 0,
    "fallShare": 65_535,
    "bigFall": 65_535,
}
KICK_LIMITS: dict[str, int] = {
    "kickGas": 200_000,
    "kickCooldown": FOR_EVER,
    "bucketMost": 2,
    "bucketPerFrame": 1,
    "bucketFrame": 3_600,
}


def node(number: int) -> str:
    """The address that PlainNetwork.joinMany(1, ...) gives to the node of this number, from 0.

    In the fixtures its index is the number too.
    """
    return Web3.to_checksum_address(f"0x{number + 1:040x}")


def full(*lanes: int, of: int = 16, **at: int) -> int:
    """A word in which the first `of` lanes are given; what is not named stays as at the start."""
    named = dict(enumerate(lanes)) | {int(name[1:]): lane for name, lane in at.items()}
    return word(*(named.get(place, START) for place in range(of)))


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

    def named(self, view: str, *args: Any) -> dict[str, Any]:
        """A view that returns one struct, by the names of its fields."""
        (output,) = self.contract.get_function_by_name(view).abi["outputs"]
        names = (part["name"] for part in output["components"])
        return dict(zip(names, self.read(view, *args), strict=True))

    def head(self, name: str) -> int:
        """One field of the head."""
        return int(self.named("head")[name])

    @property
    def round(self) -> int:
        return self.head("round")

    def lane(self, index: int) -> int:
        return int(self.read("laneAt", index))

    def held(self, of: int | str) -> dict[str, Any]:
        """The node's slot."""
        return self.named("nodeOf", address(of))

    def score(self, of: int | str) -> tuple[bool, bool, int]:
        """(known, selectable, qos)."""
        is_known, selectable, qos, _, _ = self.read("scoreOf", address(of))
        return is_known, selectable, qos

    @property
    def domain(self) -> tuple[int, str]:
        return int(self.chain.rpc("eth_chainId"), 16), self.contract.address

    # --- reports ---

    def report(
        self,
        *words: tuple[int, int],
        fresh: Sequence[str] = (),
        reused: Sequence[Taker] = (),
        **changes: Any,
    ) -> Report:
        """A report that the contract accepts now, as of the block before the last."""
        changes.setdefault("as_of", self.chain.block - 1)
        block = self.chain.rpc("eth_getBlockByNumber", hex(changes["as_of"]), False)
        right = Report(
            config=bytes(self.read("configDigest")),
            count=self.head("configCount"),
            round=self.round + 1,
            prev=bytes(self.read("lastReport")),
            as_of=changes["as_of"],
            as_of_hash=bytes.fromhex(block["hash"][2:]),
            deadline=self.chain.time + 3_500,
            data=data(*words, fresh=fresh, reused=reused),
            domain=self.domain,
        )
        return replace(right, **changes)

    def call(self, report: Report, signatures: bytes | None = None) -> Any:
        signatures = report.signed_by(*SIGNERS[:2]) if signatures is None else signatures
        return self.contract.functions.push(
            report.round,
            report.count,
            report.as_of,
            report.as_of_hash,
            report.deadline,
            report.data,
            signatures,
        )

    def push(self, report: Report, signatures: bytes | None = None) -> Receipt:
        return self.chain.send(self.call(report, signatures), sender=self.transmitter)

    def reported(
        self,
        *words: tuple[int, int],
        signers: Sequence[LocalAccount] = SIGNERS[:2],
        **changes: Any,
    ) -> Receipt:
        """One more round, in time: mines what the as-of needs and waits for the interval."""
        begun = self.chain.time
        self.chain.mine(2)
        report = self.report(*words, **changes)
        self.chain.at(max(begun + self.named("limits")["minInterval"], self.chain.time + 1))
        return self.push(report, report.signed_by(*signers))

    def registered(
        self, count: int, lane: int = START, signers: Sequence[LocalAccount] = SIGNERS[:2]
    ) -> Receipt:
        """One more round, in which the next so many nodes get an index and this lane."""
        before = self.head("nodeCount")
        first, last = before // 16, (before + count - 1) // 16
        words = self.read("wordsAt", first, last + 1 - first)
        for index in range(before, before + count):
            words[index // 16 - first] |= lane << 16 * (index % 16)
        fresh = [node(number) for number in range(before, before + count)]
        return self.reported(*enumerate(words, first), fresh=fresh, signers=signers)

    # --- kickouts ---

    def signed_kick(
        self, who: int | str, signers: Sequence[LocalAccount] = SIGNERS[:2], **changes: Any
    ) -> Any:
        """The call proposeKick, signed on the current round."""
        right = Kick(
            config=bytes(self.read("configDigest")),
            round=self.round,
            report=bytes(self.read("lastReport")),
            node=address(who),
            evidence=EVIDENCE,
            deadline=self.chain.time + 3_500,
            domain=self.domain,
        )
        kick = replace(right, **changes)
        arguments = (kick.round, kick.report, kick.node, kick.evidence, kick.deadline)
        return self.contract.functions.proposeKick(*arguments, kick.signed_by(*signers))

    def propose(self, who: int | str, **changes: Any) -> Receipt:
        return self.send(self.signed_kick(who, **changes))

    def execute(self, who: int | str) -> Receipt:
        return self.do("executeKick", address(who))

    def retry(self, who: int | str) -> Receipt:
        return self.do("retryKick", address(who))

    def cancel(self, who: int | str, reason: bytes = bytes(32), sender: str = "") -> Receipt:
        return self.do("cancelKick", address(who), reason, sender=sender or self.vetoer)

    # --- any other call ---

    def do(self, name: str, *args: Any, sender: str | None = None) -> Receipt:
        return self.send(getattr(self.contract.functions, name)(*args), sender=sender)

    def limited(self, **changes: int) -> Receipt:
        """Sets limits that differ from LIMITS in this."""
        new_limits = tuple((LIMITS | changes).values())
        return self.do("setLimits", new_limits, sender=self.admin)

    def send(self, call: Any, sender: str | None = None) -> Receipt:
        return self.chain.send(call, sender=sender or self.transmitter)

    def by_network(self, name: str, *args: Any) -> Receipt:
        """A function of the network, such as join or quit."""
        return self.send(getattr(self.network.functions, name)(*args))

    def forwarded(self, call: Any) -> Receipt:
        """The call in the network's name: msg.sender is then a contract."""
        return self.by_network("forward", call.address, encoded(call))


def address(of: int | str) -> str:
    return of if isinstance(of, str) else node(of)


def setup(target: str, accounts: Sequence[str], **changes: Any) -> dict[str, Any]:
    """The constructor's argument; accounts: admin, pauser, vetoer."""
    right = {
        "admin": accounts[0],
        "pauser": accounts[1],
        "vetoer": accounts[2],
        "target": target,
        "signers": [signer.address for signer in SIGNERS],
        "quorum": 2,
        "rulesHash": RULES_HASH,
        "limits": LIMITS,
        "floors": FLOORS,
        "kickLimits": KICK_LIMITS,
        "expelled": [],
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
