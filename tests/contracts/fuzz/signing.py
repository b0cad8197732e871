"""Signatures of test keys, made by three multiplications, and the digests that they sign.

The nonce of every key is fixed, which reveals the key: these keys protect nothing.
"""

from dataclasses import dataclass
from enum import Enum
from functools import cache

from eth_keys.datatypes import PrivateKey
from eth_utils.crypto import keccak

ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
BYTES = 65
KEYS = 12

_DOMAIN = keccak(
    b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
_REPORT = keccak(
    b"Report(bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,"
    b"uint40 deadline,bytes32 dataHash)"
)
_ROOT_REPORT = keccak(
    b"Report(bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,"
    b"uint40 deadline,bytes32 root)"
)
_KICK = keccak(
    b"Kick(bytes32 config,bytes32 report,address node,bytes32 evidence,uint40 deadline)"
)


class Form(Enum):
    """The form of a signature; only the first one is valid."""

    RIGHT = "right"
    HIGH_S = "high s"
    LOW_V = "v of 0 or 1"
    NOISE = "noise"


@dataclass(frozen=True, slots=True)
class Key:
    """A private key and its nonce."""

    secret: int
    nonce_inverse: int
    r: int
    is_odd: bool
    address: int

    @classmethod
    def of(cls, number: int) -> "Key":
        secret = int.from_bytes(keccak(text=f"fuzz signer {number}")) % ORDER
        nonce = int.from_bytes(keccak(text=f"fuzz nonce {number}")) % ORDER
        point = PrivateKey(nonce.to_bytes(32)).public_key.to_bytes()
        x = int.from_bytes(point[:32])
        y = int.from_bytes(point[32:])
        address = PrivateKey(secret.to_bytes(32)).public_key.to_canonical_address()
        return cls(secret, pow(nonce, -1, ORDER), x % ORDER, bool(y & 1), int.from_bytes(address))

    def sign(self, digest: bytes, form: Form) -> bytes:
        s = self.nonce_inverse * (int.from_bytes(digest) + self.r * self.secret) % ORDER
        is_odd = self.is_odd
        if (s > ORDER // 2) != (form is Form.HIGH_S):
            s = ORDER - s
            is_odd = not is_odd
        v = is_odd + (0 if form is Form.LOW_V else 27)
        if form is Form.NOISE:
            return keccak(digest) + bytes(31) + bytes([1, 27])
        return self.r.to_bytes(32) + s.to_bytes(32) + bytes([v])


@cache
def ring() -> tuple[Key, ...]:
    """Return all keys: signers, future signers, unrelated accounts."""
    return tuple(map(Key.of, range(KEYS)))


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature of a digest by the key of this number."""

    key: int
    digest: bytes
    form: Form = Form.RIGHT

    def is_good_for(self, digest: bytes) -> bool:
        return self.digest == digest and self.form is Form.RIGHT


@dataclass(frozen=True, slots=True)
class Signatures:
    """Several concatenated signatures; `longer`: bytes added at the end,
    or removed if negative.
    """

    given: tuple[Signature, ...]
    longer: int = 0

    def __len__(self) -> int:
        return max(BYTES * len(self.given) + self.longer, 0)

    @property
    def raw(self) -> bytes:
        written = b"".join(
            ring()[signature.key].sign(signature.digest, signature.form)
            for signature in self.given
        )
        return (written + bytes(max(self.longer, 0)))[: len(self)]


@dataclass(frozen=True, slots=True)
class Domain:
    """The contract and the chain that a signature is for."""

    chain_id: int
    contract: int
    version: bytes = b"2"

    def digest(self, words: tuple[int, ...], kind: bytes) -> bytes:
        separator = keccak(
            _DOMAIN
            + keccak(b"QoSOracle")
            + keccak(self.version)
            + b"".join(word.to_bytes(32) for word in (self.chain_id, self.contract))
        )
        return keccak(
            b"\x19\x01" + separator + keccak(kind + b"".join(w.to_bytes(32) for w in words))
        )

    def of_report(self, words: tuple[int, ...]) -> bytes:
        """Words: configuration, round, prev, as-of, its hash, deadline, data's hash."""
        return self.digest(words, _REPORT)

    def of_root_report(self, words: tuple[int, ...]) -> bytes:
        """Words: configuration, round, prev, as-of, its hash, deadline, root."""
        return self.digest(words, _ROOT_REPORT)

    def of_kick(self, words: tuple[int, ...]) -> bytes:
        """Words: configuration, report, node, evidence, deadline."""
        return self.digest(words, _KICK)
