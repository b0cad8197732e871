"""Verifies signatures by contract accounts for the read API, within rate limits.

The account of a node may be a contract, which verifies signatures itself (ERC-1271). See
docs/explanation/objections.md#nodes-that-are-contracts.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack, closing

from oracle.bindings.contract_signatures import (
    SignatureCheckUnavailableError,
    verify_contract_signature,
)
from oracle.daemon.config.chain_section import ChainSection
from oracle.daemon.web.rate_limit import ClientBuckets, ConcurrencyLimit, TokenBucket
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.fanout import PoolView
from oracle.store.database import Store
from oracle.telemetry.logger import get_logger

# Maximum number of calls per second and in a burst, for one account and for all accounts together.
_ACCOUNT_CALLS_PER_SECOND = 1 / 60
_ACCOUNT_BURST = 3
_CALLS_PER_SECOND = 1 / 6
_BURST = 10
# If a call finds no code at an account, the account is not called again for this many seconds.
_NO_CODE_SECONDS = 600.0
# A response must begin within this time and must not exceed this size.
_TIMEOUT_SECONDS = 3.0
_MAX_RESPONSE_BYTES = 16 * 1024


class ContractAccounts:
    """Verifies signatures of contract accounts, one at a time; thread-safe.

    The endpoints are opened for each call and are not those of the indexer, so that a call that
    fails never puts an endpoint of the indexer in backoff.
    """

    def __init__(
        self, chain: ChainSection, store: Store, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Store the settings without sending requests; `clock` returns monotonic seconds."""
        self._chain = chain
        self._store = store
        self._bucket_by_account = ClientBuckets(_ACCOUNT_CALLS_PER_SECOND, _ACCOUNT_BURST, clock)
        self._common_bucket = TokenBucket(_CALLS_PER_SECOND, _BURST, clock)
        self._limit = ConcurrencyLimit(1)
        self._clock = clock
        # For each account, the time until which it is assumed to have no code.
        self._no_code_until: dict[Address, float] = {}

    def accepts_signature(self, account: Address, digest: Hash, signature: bytes) -> bool:
        """Return whether a contract account accepts a signature of a digest.

        Raises:
            SignatureCheckUnavailableError: a limit is reached, or no endpoint responds.
        """
        # If the last call found no code, the signature is rejected without another call.
        if self._no_code_until.get(account, 0.0) > self._clock():
            return False
        with self._limit.try_enter() as is_admitted:
            if not (
                is_admitted
                and self._bucket_by_account.try_acquire(account)
                and self._common_bucket.try_acquire()
            ):
                raise SignatureCheckUnavailableError(
                    "too many signatures of contracts were checked; retry in a minute"
                )
            try:
                is_accepted = self._call_is_valid_signature(account, digest, signature)
            except TransientError as error:
                get_logger().warning(
                    "contract_signature_unchecked", account=account, reason=str(error)
                )
                raise SignatureCheckUnavailableError(
                    "no RPC endpoint of this server responds; retry later"
                ) from None
            if is_accepted is None:
                now = self._clock()
                # Expired entries are dropped. The number of other entries is bounded by the rate
                # limit of calls.
                self._no_code_until = {
                    earlier_account: retry_time
                    for earlier_account, retry_time in self._no_code_until.items()
                    if retry_time > now
                } | {account: now + _NO_CODE_SECONDS}
            return is_accepted is True

    def _call_is_valid_signature(
        self, account: Address, digest: Hash, signature: bytes
    ) -> bool | None:
        with self._store.read_transaction() as uow:
            wrong_endpoints = uow.facts.quarantine.get_reason_by_endpoint()
        with ExitStack() as exit_stack:
            endpoints = []
            for url in self._chain.endpoints:
                client = JsonRpcClient(
                    url, timeout_seconds=_TIMEOUT_SECONDS, max_bytes=_MAX_RESPONSE_BYTES
                )
                exit_stack.enter_context(closing(client))
                if client.name not in wrong_endpoints:
                    endpoints.append(Endpoint(client))
            if not endpoints:
                raise TransientError("every endpoint was proven wrong")
            quorum = WitnessQuorum({endpoint.name: endpoint.provider for endpoint in endpoints})
            pool_view = PoolView(endpoints, _TIMEOUT_SECONDS, quorum)
            return verify_contract_signature(pool_view, self._chain.id, account, digest, signature)
