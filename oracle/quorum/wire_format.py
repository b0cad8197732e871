"""The wire format of signed statements between reporters, and the board that serves them.

Messages are strictly decoded and verified. The scheduler's worker thread writes the board, and the
HTTP server reads it. The board is in memory, so that a request of a peer never waits for the
database or an endpoint.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import msgspec

from oracle.domain.ids import Address, Hash
from oracle.errors import FatalError
from oracle.signing.signature_checks import EcdsaSignature
from oracle.signing.typed_data import Domain, ReportStatement

# Maximum number of statements that a reporter publishes about a round.
MAX_STATEMENTS = 8

_Address = Annotated[str, msgspec.Meta(pattern=r"^0x[0-9a-f]{40}$")]
_Hash = Annotated[str, msgspec.Meta(pattern=r"^0x[0-9a-f]{64}$")]
_Signature = Annotated[str, msgspec.Meta(pattern=r"^0x[0-9a-f]{130}$")]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Round = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=2**40 - 1)]


class ReportMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signed statement as JSON; all fields are signed except the informative `period`."""

    chain_id: _Number
    contract: _Address
    config: _Hash
    round: _Round
    prev: _Hash
    as_of: _Time
    as_of_hash: _Hash
    deadline: _Time
    root: _Hash
    period: _Number
    digest: _Hash
    signer: _Address
    signature: _Signature

    def compute_digest(self) -> Hash:
        """Return the digest of the signed fields."""
        statement = ReportStatement(
            config=Hash(self.config),
            round=self.round,
            prev=Hash(self.prev),
            as_of=self.as_of,
            as_of_hash=Hash(self.as_of_hash),
            deadline=self.deadline,
            root=Hash(self.root),
        )
        return statement.compute_digest(Domain(self.chain_id, Address(self.contract)))


class StatementsResponse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The response of `/v1/report/{round}`, with the newest statement first."""

    statements: Annotated[
        list[ReportMessage], msgspec.Meta(min_length=1, max_length=MAX_STATEMENTS)
    ]


def decode_statements(body: bytes) -> list[ReportMessage]:
    """Decode the statements of a response.

    Raises:
        ValueError: the response is malformed.
    """
    try:
        return msgspec.json.decode(body, type=StatementsResponse).statements
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def encode_statements(statements: list[ReportMessage]) -> bytes:
    return msgspec.json.encode(StatementsResponse(statements))


def is_genuine_message(message: ReportMessage) -> bool:
    """Return whether the message's digest matches its fields and its signer signed it."""
    if message.compute_digest() != message.digest:
        return False
    try:
        signature = EcdsaSignature.from_bytes(bytes.fromhex(message.signature[2:]))
    except FatalError:
        return False
    return (
        signature.has_low_s
        and signature.recover_address(bytes.fromhex(message.digest[2:])) == message.signer
    )


# Maximum number of rounds on the board. The oldest rounds are dropped first.
_MAX_ROUNDS = 256


class Board:
    """This reporter's newest statements by round, which its peers can fetch."""

    def __init__(self) -> None:
        self._statements_by_round: Mapping[int, tuple[ReportMessage, ...]] = MappingProxyType({})

    def publish(self, statement: ReportMessage) -> None:
        """Publish a statement before older statements of the same round."""
        # The mapping is replaced instead of changed, so that a concurrent reader never sees a
        # partial update.
        statements_by_round = dict(self._statements_by_round)
        earlier_statements = tuple(
            earlier_statement
            for earlier_statement in statements_by_round.pop(statement.round, ())
            if earlier_statement.digest != statement.digest
        )
        statements_by_round[statement.round] = (statement, *earlier_statements)[:MAX_STATEMENTS]
        for oldest_round in list(statements_by_round)[:-_MAX_ROUNDS]:
            del statements_by_round[oldest_round]
        self._statements_by_round = MappingProxyType(statements_by_round)

    def get_statements(self, round_number: int) -> list[ReportMessage]:
        """Return the statements of a round, newest first; safe from any thread."""
        return list(self._statements_by_round.get(round_number, ()))
