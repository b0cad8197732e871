"""Which chain and which contracts this database is about; written once, checked at every start."""

from dataclasses import dataclass

from sqlalchemy import Connection

from oracle.domain.ids import Address, Hash


@dataclass(frozen=True, slots=True)
class Identity:
    """What must never change under a database; `oracle` None: index only."""

    chain_id: int
    genesis_hash: Hash
    # Contract name to address, as the configuration has them.
    contracts: dict[str, Address]
    oracle: Address | None
    start_block: int


class IdentityRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> Identity | None:
        """Return what this database is about; None while it is new."""
        raise NotImplementedError

    def set(self, identity: Identity) -> None:
        """Write it down the first time; later only check that it is the same.

        Raises:
            InputError: the database belongs to another chain, contract or start block.
        """
        raise NotImplementedError
