"""The chain and contracts of this database; written once, checked at every start."""

from dataclasses import dataclass, fields

import msgspec
from sqlalchemy import Connection, insert, select, update

from oracle.domain.ids import Address, Hash
from oracle.errors import InputError
from oracle.store.encoding import hexed, raw, raw_or_none
from oracle.store.raw.coverage_repository import NAMELESS
from oracle.store.tables.chain_tables import identity
from oracle.store.tables.integrity_tables import coverage

_WORDS = {
    "chain_id": "chain id",
    "genesis_hash": "the chain with genesis",
    "contracts": "the contracts",
    "oracle": "the oracle contract",
    "start_block": "the blocks from",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Chain and contracts that must never change under a database; contracts may be added.

    `oracle` is None for an index without publishing.
    """

    chain_id: int
    genesis_hash: Hash
    # Contract name to address, as in the configuration.
    contracts: dict[str, Address]
    oracle: Address | None
    start_block: int


class IdentityRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> Identity | None:
        """Return the identity of this database, or None while it is new."""
        row = self._connection.execute(select(identity)).one_or_none()
        if row is None:
            return None
        return Identity(
            chain_id=row.chain_id,
            genesis_hash=Hash(hexed(row.genesis_hash)),
            contracts=msgspec.json.decode(row.contracts, type=dict[str, Address]),
            oracle=None if row.oracle is None else Address(hexed(row.oracle)),
            start_block=row.start_block,
        )

    def set(self, wanted: Identity) -> None:
        """Store the identity the first time; later check it and store new contracts.

        Raises:
            InputError: the database belongs to another chain, contract or start block, or is of an
                older version and contracts are new.
        """
        known = self.get()
        if known is None:
            self._write(wanted)
            return
        self.check(wanted)
        if known != wanted:
            self._check_ledger()
            self._extend(wanted)

    def check(self, wanted: Identity) -> None:
        """Reject a configuration that differs from the stored identity; contracts may be added.

        Raises:
            InputError: the database belongs to another chain, contract or start block.
        """
        known = self.get()
        if known is None:
            return
        for field in fields(Identity):
            here, there = getattr(known, field.name), getattr(wanted, field.name)
            if here != there and not _is_added(here, there):
                raise InputError(
                    f"this database is about {_WORDS[field.name]} {_shown(here)}, the "
                    f"configuration says {_shown(there)}: name another database, or put "
                    "the configuration right"
                )

    def _check_ledger(self) -> None:
        """Reject new contracts while stored coverage does not name its contracts."""
        unnamed = select(coverage.c.first_block).where(coverage.c.scope == NAMELESS).limit(1)
        if self._connection.execute(unnamed).first() is not None:
            raise InputError(
                "this database was written by an older version, which did not note for which "
                "contracts it read: let `qos-oracle run` take in a block with the contracts that "
                "it knows, then add the new ones"
            )

    def _extend(self, wanted: Identity) -> None:
        self._connection.execute(
            update(identity).values(
                contracts=_contracts(wanted), oracle=raw_or_none(wanted.oracle)
            )
        )

    def _write(self, wanted: Identity) -> None:
        self._connection.execute(
            insert(identity).values(
                id=1,
                chain_id=wanted.chain_id,
                genesis_hash=raw(wanted.genesis_hash),
                contracts=_contracts(wanted),
                oracle=raw_or_none(wanted.oracle),
                start_block=wanted.start_block,
            )
        )


def _contracts(wanted: Identity) -> str:
    return msgspec.json.encode(dict(sorted(wanted.contracts.items()))).decode()


def _is_added(here: object, there: object) -> bool:
    """Return whether the values differ only by added contracts, whose past is read later."""
    if isinstance(here, dict) and isinstance(there, dict):
        return here.items() <= there.items()
    return here is None


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {address}" for name, address in sorted(value.items()))
    return "none" if value is None else str(value)
