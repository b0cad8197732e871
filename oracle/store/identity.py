"""Stores the chain and the contracts of the database, which are checked at every start."""

from dataclasses import dataclass, fields

import msgspec
from sqlalchemy import Connection, insert, select, update

from oracle.domain.ids import Address, Hash
from oracle.errors import InputError
from oracle.store.encoding import decode_hex, decode_optional_hex, encode_hex
from oracle.store.raw.coverage_repository import UNNAMED_SCOPE_ID
from oracle.store.tables.chain_tables import identity
from oracle.store.tables.integrity_tables import coverage

_LABEL_BY_FIELD = {
    "chain_id": "chain id",
    "genesis_hash": "the chain with genesis block",
    "contracts": "the contracts",
    "oracle": "the oracle contract",
    "start_block": "start block",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """A database's chain and contracts, which never change.

    Only the addition of a contract is permitted. `oracle` is None if no oracle contract is
    configured.
    """

    chain_id: int
    genesis_hash: Hash
    # Address of each contract, by the contract's name in the configuration.
    contracts: dict[str, Address]
    oracle: Address | None
    start_block: int


class IdentityRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> Identity | None:
        """Return the identity of this database, or None if the database is new."""
        row = self._connection.execute(select(identity)).one_or_none()
        if row is None:
            return None
        return Identity(
            chain_id=row.chain_id,
            genesis_hash=Hash(encode_hex(row.genesis_hash)),
            contracts=msgspec.json.decode(row.contracts, type=dict[str, Address]),
            oracle=None if row.oracle is None else Address(encode_hex(row.oracle)),
            start_block=row.start_block,
        )

    def ensure_stored_identity(self, configured_identity: Identity) -> None:
        """Store the identity of a new database, or check it and store added contracts.

        Raises:
            InputError: the database belongs to another chain, contract or start block; or the
                configuration adds contracts to a database of an older version.
        """
        stored_identity = self.get()
        if stored_identity is None:
            self._insert_identity(configured_identity)
            return
        self.check(configured_identity)
        if stored_identity != configured_identity:
            self._check_coverage_is_scoped()
            self._store_added_contracts(configured_identity)

    def check(self, configured_identity: Identity) -> None:
        """Check that the configuration agrees with the stored identity.

        The configuration may add contracts.

        Raises:
            InputError: the database belongs to another chain, contract or start block.
        """
        stored_identity = self.get()
        if stored_identity is None:
            return
        for field in fields(Identity):
            stored_value = getattr(stored_identity, field.name)
            configured_value = getattr(configured_identity, field.name)
            if stored_value != configured_value and not _is_contract_addition(
                stored_value, configured_value
            ):
                raise InputError(
                    f"this database was created for {_LABEL_BY_FIELD[field.name]} "
                    f"{_format_value(stored_value)}, but the configuration has "
                    f"{_format_value(configured_value)}; use another database, or correct the "
                    "configuration"
                )

    def _check_coverage_is_scoped(self) -> None:
        """Check that the coverage is assigned to a scope, before contracts are added.

        Raises:
            InputError: the coverage is not assigned to a scope.
        """
        query = select(coverage.c.first_block).where(coverage.c.scope == UNNAMED_SCOPE_ID).limit(1)
        if self._connection.execute(query).first() is not None:
            raise InputError(
                "this database was written by an older version, which did not record the "
                "contracts of the blocks that it read; run `qos-oracle run` with the previous "
                "contracts until it has indexed a block, then add the new ones"
            )

    def _store_added_contracts(self, configured_identity: Identity) -> None:
        self._connection.execute(
            update(identity).values(
                contracts=_encode_contracts(configured_identity),
                oracle=decode_optional_hex(configured_identity.oracle),
            )
        )

    def _insert_identity(self, configured_identity: Identity) -> None:
        self._connection.execute(
            insert(identity).values(
                id=1,
                chain_id=configured_identity.chain_id,
                genesis_hash=decode_hex(configured_identity.genesis_hash),
                contracts=_encode_contracts(configured_identity),
                oracle=decode_optional_hex(configured_identity.oracle),
                start_block=configured_identity.start_block,
            )
        )


def _encode_contracts(configured_identity: Identity) -> str:
    return msgspec.json.encode(dict(sorted(configured_identity.contracts.items()))).decode()


def _is_contract_addition(stored_value: object, configured_value: object) -> bool:
    """Return whether the configured value only adds contracts to the stored value."""
    if isinstance(stored_value, dict) and isinstance(configured_value, dict):
        return stored_value.items() <= configured_value.items()
    return stored_value is None


def _format_value(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {address}" for name, address in sorted(value.items()))
    return "none" if value is None else str(value)
