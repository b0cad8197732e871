"""Opens the endpoints and the chain source from the settings, without a database or key.

Opening contacts no endpoint. `check_chain` contacts them, and must be called before the chain is
read. Facts about endpoints that any thread learns are cached until the worker stores them.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import Lock

from oracle.chain.contract_checks import WrongContractError
from oracle.chain.log_filter import LogFilter
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.chain.verification.calibration import Calibration
from oracle.daemon.config.chain_section import build_verification_policy
from oracle.daemon.config.loader import Config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import get_configured_contracts
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.rpc.endpoints.probe import CHAIN_FACTS_KEY
from oracle.rpc.pool import EndpointPool
from oracle.store.database import Store


@dataclass(slots=True)
class CapabilityCache:
    """A `CapabilityStore` backed by the database, to which any thread may add facts.

    `store` is None if there is no database; then no value is stored. `clock` returns unix seconds.
    """

    store: Store | None
    clock: Callable[[], float]
    # Values that are not stored yet, each with its expiry, by endpoint and name.
    _unstored_facts: dict[tuple[str, str], tuple[str, int | None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def load_facts(self, endpoint: str) -> dict[str, str]:
        """Return the unexpired facts about this endpoint, from the database and from memory."""
        store = self.store
        value_by_name = dict[str, str]()
        if store is not None:
            with store.read_transaction() as uow:
                value_by_name = uow.facts.get_all(endpoint, int(self.clock()))
        with self._lock:
            return value_by_name | {
                name: value
                for (learned_endpoint, name), (value, _) in self._unstored_facts.items()
                if learned_endpoint == endpoint
            }

    def save_fact(self, endpoint: str, key: str, value: str, seconds: float | None) -> None:
        """Keep a fact in memory until `store_endpoint_facts` writes it.

        The value expires after `seconds`, or never if `seconds` is None.
        """
        expiry_time = None if seconds is None else int(self.clock() + seconds)
        with self._lock:
            self._unstored_facts[endpoint, key] = value, expiry_time

    def store_endpoint_facts(self, epoch: int) -> int:
        """Write the new facts to the database, and return how many were written.

        `epoch` is the epoch of the lease that this process holds.

        Raises:
            FatalError: another process has taken over the lease.
        """
        store = self.store
        with self._lock:
            unstored_facts, self._unstored_facts = self._unstored_facts, {}
        if store is None or not unstored_facts:
            return 0
        try:
            with store.transaction() as uow:
                uow.lease.lock_held_lease(epoch)
                uow.facts.delete_expired(int(self.clock()))
                for (endpoint, name), (value, expires) in unstored_facts.items():
                    uow.facts.set(endpoint, {name: value}, expires)
        except BaseException:
            with self._lock:
                self._unstored_facts = unstored_facts | self._unstored_facts
            raise
        return len(unstored_facts)

    def store_chain_facts(self, epoch: int) -> int:
        """Write all new facts if at least one of them is about the chain.

        The number of written facts is returned. Such values are rare. They are written early
        because the next process needs them, for example to know that blocks are verified at a
        lower level from now on.
        """
        with self._lock:
            has_chain_facts = any(
                endpoint == CHAIN_FACTS_KEY for endpoint, _ in self._unstored_facts
            )
        return self.store_endpoint_facts(epoch) if has_chain_facts else 0


@contextmanager
def open_chain(
    config: Config, reader: EventReader, endpoint_facts: CapabilityCache | None = None
) -> Iterator[ChainSource]:
    """Build the chain source for the configured endpoints, and close it on exit.

    No endpoint is contacted. `endpoint_facts` is the cache of the database, which includes the
    endpoints that were proven wrong. It is None if there is no database, or if the caller does not
    need these facts.
    """
    endpoint_facts = endpoint_facts or CapabilityCache(None, unix_seconds)
    chain_section = config.chain
    max_bytes = chain_section.max_response_mib * 2**20
    pool = EndpointPool.from_urls(
        chain_section.endpoints,
        chain_section.id,
        max_bytes=max_bytes,
        providers=chain_section.providers,
    )
    with closing(
        ChainSource(
            pool,
            reader,
            chain_section.finality_depth,
            finality_seconds=chain_section.finality_seconds,
        )
    ) as chain:
        chain.configure_verification(
            build_verification_policy(config.verify), Calibration(capability_store=endpoint_facts)
        )
        if (
            chain_section.checkpoint_block is not None
            and chain_section.checkpoint_hash is not None
        ):
            checkpoint = Hash(chain_section.checkpoint_hash)
            chain.add_checkpoint(
                chain_section.checkpoint_block, checkpoint, "[chain] checkpoint_hash"
            )
        reload_quarantined_endpoints(chain, endpoint_facts.store)
        yield chain


def check_chain(config: Config, chain: ChainSource, store: Store | None = None) -> ChainSource:
    """Check that the endpoints serve the configured chain, and return the chain source.

    Raises:
        TransientError: no endpoint answers, or a contract from which `store` was indexed is
            missing.
        InputError: the chain's id is not `chain.id`, or there is no contract at a configured
            address.
    """
    try:
        chain.check_endpoints()
    except WrongContractError as error:
        if store is not None and _has_configured_contracts(config, store):
            raise TransientError(
                f"{error}; an earlier check succeeded, so the endpoint may be out of sync"
            ) from error
        raise
    return chain


@contextmanager
def open_checked_chain(config: Config) -> Iterator[ChainSource]:
    """Open the endpoints without a database, and check that they serve the configured chain.

    Raises:
        InputError: see `open_reader` and `check_chain`.
        TransientError: no endpoint answers.
    """
    with open_chain(config, open_reader(config)) as chain:
        yield check_chain(config, chain)


def _has_configured_contracts(config: Config, store: Store) -> bool:
    with store.read_transaction() as uow:
        identity = uow.identity.get()
    return identity is not None and (
        identity.contracts,
        identity.oracle,
    ) == get_configured_contracts(config)


def reload_quarantined_endpoints(chain: ChainSource, store: Store | None) -> None:
    """Exclude the endpoints that are recorded in the database as proven wrong."""
    if store is not None:
        with store.read_transaction() as uow:
            reason_by_endpoint = uow.facts.quarantine.get_reason_by_endpoint()
        chain.endpoints.endpoint_list.sync_proven_wrong_endpoints(reason_by_endpoint)


@contextmanager
def reopen_endpoints(config: Config, chain: ChainSource) -> Iterator[EndpointPool]:
    """Open the endpoints again for a single check, and close them on exit.

    The new endpoints have no recorded failures, so each of them is contacted and reports its own
    errors. Endpoints that were proven wrong stay excluded.
    """
    chain_section = config.chain
    opened_pool = EndpointPool.from_urls(
        chain_section.endpoints, chain_section.id, providers=chain_section.providers
    )
    with closing(opened_pool) as pool:
        pool.endpoint_list.sync_proven_wrong_endpoints(chain.get_proven_wrong_endpoints())
        yield pool


def build_log_filter(reader: EventReader) -> LogFilter:
    """Build the filter for the logs that the reader decodes."""
    return LogFilter(frozenset(reader.addresses), frozenset(reader.topics))
