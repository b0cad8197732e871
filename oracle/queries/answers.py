"""Parts shared by all answers: base models, the as-of block, event sources, number formats.

`/v1` and `--json` print the same pydantic models, so the published schema always matches the
output (docs/reference/read-api.md#conventions). Times are unix seconds; amounts and fractions are
decimal text.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from oracle.domain.blocks import Position
from oracle.domain.feed_rows import get_feed_row_key, is_feed_position
from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import Hash
from oracle.domain.scoring.rules import Rules
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor

ADDRESS_PATTERN = "^0x[0-9a-f]{40}$"
HASH_PATTERN = "^0x[0-9a-f]{64}$"
# The largest signed 64-bit integer, which is the maximum of a database column.
LARGEST_INTEGER = 2**63 - 1

AddressText = Annotated[
    str,
    Field(pattern=ADDRESS_PATTERN, examples=["0xfabb0ac9d68b0b445fb7357272ff202c5651694a"]),
]
# An account id as in CAIP-10: the namespace eip155, the chain id, and the EIP-55 address.
AccountId = Annotated[
    str,
    Field(
        pattern="^eip155:[0-9]+:0x[0-9a-fA-F]{40}$",
        examples=["eip155:1:0xfaBB0ac9d68B0B445fB7357272Ff202C5651694a"],
    ),
]
HashText = Annotated[str, Field(pattern=HASH_PATTERN, examples=["0x" + "5e" * 32])]
# A fraction in units of 10^-18 that is written as a decimal with 18 places.
FractionText = Annotated[
    str, Field(pattern=r"^[0-9]+\.[0-9]{18}$", examples=["0.581000000000000000"])
]
# An integer as text, because wei, weights and sums may be too large for a JavaScript number.
IntegerText = Annotated[str, Field(pattern="^[0-9]+$", examples=["1000000000000000000"])]
# These types are like `FractionText` and `IntegerText`, but they become text only in JSON. Tables
# and pages can therefore calculate with the integers.
FixedPoint = Annotated[
    int,
    PlainSerializer(format_decimal, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[0-9]+\.[0-9]{18}$",
            "examples": ["0.581000000000000000"],
        }
    ),
]
Integer = Annotated[
    int,
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]+$", "examples": ["1000000000000000000"]}),
]


class ApiModel(BaseModel):
    """Base class of every part of an answer; instances are immutable.

    If a stored row has attributes of the same names, `model_validate` converts the row.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)


class BlockView(ApiModel):
    """A block of the chain."""

    number: int
    hash: HashText
    parent_hash: HashText
    time: int = Field(description="Time of the block, in unix seconds.")


class AsOf(ApiModel):
    """The block that an answer describes, and how far this block is behind the chain's head."""

    block: int = Field(
        description=(
            "The last block that was indexed; the response describes the network after this block."
        ),
        examples=[293],
    )
    hash: HashText
    time: int = Field(description="Time of the block, in unix seconds.", examples=[1_800_003_580])
    final: int | None = Field(
        description="The newest final block; null if it is unknown.", examples=[281]
    )
    is_final: bool = Field(description="Whether `block` is final, so that no reorg can remove it.")
    head: int | None = Field(
        description=(
            "The newest block of the chain; null if only the daemon knows it, and this process "
            "is not the daemon."
        ),
        examples=[294],
    )
    lag_blocks: int | None = Field(
        description="Number of blocks from `block` to `head`; null if `head` is unknown.",
        examples=[1],
    )
    lag_seconds: int = Field(
        ge=0, description="Age of `block` at the time of the response, in seconds.", examples=[4]
    )
    replica_lag_seconds: float | None = Field(
        description=(
            "Seconds by which the database is behind its primary server; null if the database "
            "is not a replica."
        ),
        examples=[None],
    )
    rules: str = Field(
        description="Name and version of the rule set with which the block was scored.",
        examples=["crynux 2"],
    )
    epoch: int = Field(
        description=(
            "A number that increases with each change of the index, and when a halt begins or "
            "ends."
        )
    )


def build_as_of(
    uow: UnitOfWork, cursor: Cursor, rules: Rules, *, head: int | None, now: int
) -> AsOf:
    """Return the `as_of` part of an answer that is computed at the cursor.

    `head` is the newest block of the chain, or None if unknown. `now` is in unix seconds.
    """
    final_block = cursor.final_number
    return AsOf(
        block=cursor.number,
        hash=cursor.hash,
        time=cursor.time,
        final=final_block,
        is_final=final_block is not None and cursor.number <= final_block,
        head=head,
        lag_blocks=None if head is None else max(0, head - cursor.number),
        lag_seconds=max(0, now - cursor.time),
        replica_lag_seconds=uow.measure_replica_lag_seconds(),
        rules=f"{rules.name} {rules.version}",
        # A halt does not move the cursor, but it changes the answer.
        epoch=cursor.epoch + uow.halts.count_halt_changes(),
    )


class Answer(ApiModel):
    """Base class of every answer; `as_of` is the block that the answer describes."""

    as_of: AsOf


class LogPlace(ApiModel):
    """The source of an event: a log, a call (`log` is -1), or a feed row without a transaction."""

    block: int = Field(examples=[287])
    tx: int | None = Field(examples=[3])
    log: int | None = Field(examples=[5])
    feed_row: int | None = Field(
        description=(
            "Id of the feed's row from which the event comes; null if it comes from the chain. "
            "A feed's rows have no proof."
        )
    )
    transaction: HashText | None = Field(
        description=(
            "Hash of the transaction; null for a feed row or a call, or if the raw log is not "
            "stored."
        )
    )


def load_event_sources(uow: UnitOfWork, positions: Iterable[Position]) -> dict[Position, LogPlace]:
    """Return the source of the event at each position; feed rows have no transaction."""
    distinct_positions = set(positions)
    hash_by_log = uow.logs.get_transaction_hashes(
        (position.block, position.log)
        for position in distinct_positions
        # A position of a feed row or of a call has no log.
        if not is_feed_position(position) and position.log >= 0
    )
    return {
        position: _build_log_place(position, hash_by_log.get((position.block, position.log)))
        for position in distinct_positions
    }


def _build_log_place(position: Position, transaction: Hash | None) -> LogPlace:
    if is_feed_position(position):
        row = get_feed_row_key(position)[1]
        return LogPlace(block=position.block, tx=None, log=None, feed_row=row, transaction=None)
    return LogPlace(
        block=position.block,
        tx=position.tx,
        log=position.log,
        feed_row=None,
        transaction=transaction,
    )


class RuleSetView(ApiModel):
    """The name and the version of a rule set, and the SHA-256 of its canonical JSON."""

    name: str
    version: int | None
    sha256: str
