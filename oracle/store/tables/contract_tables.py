"""Tables of the state of the oracle contract that accepts one Merkle root a round.

Its settings are in `contract_setting`. At present the daemon folds another contract, so that
these tables are empty.
"""

from sqlalchemy import BigInteger, Column, LargeBinary, Table, Text

from oracle.domain.blocks import Position
from oracle.store.tables.metadata import metadata


def _build_position_columns() -> list[Column[int]]:
    return [
        Column(name, BigInteger, primary_key=True, autoincrement=False)
        for name in Position._fields
    ]


# Rounds that the contract accepted, each with its root; the newest round is the contract's head.
accepted_root = Table(
    "accepted_root",
    metadata,
    *_build_position_columns(),
    Column("time", BigInteger, nullable=False),
    Column("round", BigInteger, nullable=False, index=True),
    Column("as_of", BigInteger, nullable=False),
    Column("as_of_hash", LargeBinary, nullable=False),
    Column("root", LargeBinary, nullable=False),
    Column("config", LargeBinary, nullable=False),
    # Bit i: signer i of the configuration has signed.
    Column("signer_bitmap", LargeBinary, nullable=False),
)

# Rounds whose roots the pauser struck: they prove nothing any more.
struck_rounds = Table(
    "struck_rounds",
    metadata,
    *_build_position_columns(),
    Column("time", BigInteger, nullable=False),
    Column("first_round", BigInteger, nullable=False),
    Column("last_round", BigInteger, nullable=False),
)

# State of the kickout of each node that was ever accused, expelled or allowed to be kicked out.
node_kick = Table(
    "node_kick",
    metadata,
    Column("node", LargeBinary, primary_key=True),
    Column("state", Text, nullable=False),
    # Intervals that began until then cannot be accused.
    Column("spared_until", BigInteger, nullable=False),
    # Start of the interval for which the vetoer allowed a held kickout; 0: none.
    Column("allowed", BigInteger, nullable=False),
    # The newest accusation; NULL: none.
    Column("accused_at", Text),
    Column("accused_in", BigInteger),  # round
    Column("due_since", BigInteger),
    Column("ready_at", BigInteger),
    Column("evidence", LargeBinary),
    # Execution of the kickout; NULL: not executed.
    Column("executed_at", Text),
    Column("executed_in", BigInteger),  # round
    Column("expelled_until", BigInteger),
    Column("target", LargeBinary),
    Column("tried_in", BigInteger),  # round of the newest try
    Column("tried_at", Text),
    Column("refusals", BigInteger),  # consecutive refusals with this reason
    Column("reason", LargeBinary),
)
