"""Sender accounts with their endpoints, keys and spending limits."""

import time
from dataclasses import dataclass

from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.rpc.endpoints.rate_limiter import Backoff
from oracle.rpc.pool import EndpointPool
from oracle.signing.local import ReadOnlySigner
from oracle.signing.signer import Fees, Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.client.fee_quote import SendLimits, compute_fees, fetch_fee_market
from oracle.txmgr.client.send_raw import init_broadcast_metrics


@dataclass(frozen=True, slots=True)
class ReporterKeys:
    """The two keys of a reporter.

    The signer signs statements, and its account holds no ether. The transmitter pays for
    transactions and has no rights in the contract. One of the two keys is None in a process that
    only signs or only sends.

    Raises:
        InputError: the signer and the transmitter are the same key.
    """

    signer: Signer | None
    transmitter: Signer | None

    def __post_init__(self) -> None:
        signer, transmitter = self.signer, self.transmitter
        if signer is not None and transmitter is not None:
            _check_keys_differ(signer, transmitter)

    def check_key_is_distinct(self, other_key: Signer) -> None:
        """Check that another key is neither the signer's nor the transmitter's key.

        Two senders must not share a key, because each of them assigns the nonces of its account.

        Raises:
            InputError: the other key is the signer or the transmitter.
        """
        reporter_addresses = {
            key.address for key in (self.signer, self.transmitter) if key is not None
        }
        if other_key.address in reporter_addresses:
            raise InputError(
                "the dispatcher has the same key as the signer or the transmitter "
                f"({other_key.address}); use a separate key for the dispatcher"
            )


def _check_keys_differ(signer: Signer, transmitter: Signer) -> None:
    if signer.address == transmitter.address:
        raise InputError(
            f"signer and transmitter are the same key ({signer.address}); use two keys, because "
            "the signer's account must not hold ether"
        )


class SenderAccount:
    """An account that sends transactions.

    Without keys it can only read and simulate.
    """

    def __init__(
        self,
        pool: EndpointPool,
        *,
        domain: Domain,
        caps: SendLimits,
        keys: ReporterKeys | Signer | None = None,
    ) -> None:
        """Create an account that uses a pool of endpoints.

        If `keys` is a single `Signer`, this key pays for transactions, and statements cannot be
        signed.
        """
        self.pool = pool
        self.pool_view = pool.create_view()
        init_broadcast_metrics(pool)
        self.domain = domain
        self.caps = caps
        # If a key refused to sign, or returned a wrong signature, it is not used for a while.
        self.signer_backoff = Backoff(time.monotonic)
        self.payer_backoff = Backoff(time.monotonic)
        self._keys = keys if isinstance(keys, ReporterKeys) else None
        self._payer = keys.transmitter if isinstance(keys, ReporterKeys) else keys

    @property
    def keys(self) -> ReporterKeys:
        """The keys of the reporter, which are the signer, the transmitter, or both.

        Raises:
            InputError: no keys are configured.
        """
        if self._keys is None:
            raise InputError(
                "no keys are configured; set keys.signer_keystore and keys.transmitter_keystore "
                "with their password files"
            )
        return self._keys

    @property
    def has_keys(self) -> bool:
        return self._keys is not None

    @property
    def has_signer(self) -> bool:
        """Whether statements can be signed."""
        return self._keys is not None and self._keys.signer is not None

    @property
    def has_payer(self) -> bool:
        """Whether transactions can be signed."""
        return self._payer is not None

    @property
    def signer(self) -> Signer:
        """The key that signs statements.

        Do not use it inside a database transaction.

        Raises:
            InputError: no signer is configured.
        """
        signer = self.keys.signer
        if signer is None:
            raise InputError("no signer is configured; [keys] only names a transmitter")
        return signer

    @property
    def payer(self) -> Signer:
        """The key that signs transactions.

        It is the transmitter's key, or the only key.

        Raises:
            InputError: no transmitter is configured.
        """
        payer = self.keys.transmitter if self._payer is None else self._payer
        if payer is None:
            raise InputError("no transmitter is configured; [keys] only names a signer")
        return payer

    @property
    def sender(self) -> Address:
        """The address from which transactions are sent."""
        return self.payer.address

    def quote_fees(self) -> Fees | None:
        """Return the fees for a transaction sent now, or None if the base fee exceeds the cap.

        Raises:
            TransientError: no endpoint answers.
        """
        return compute_fees(fetch_fee_market(self.pool_view, self.caps), self.caps.fee_per_gas)

    def to_read_only(self) -> "SenderAccount":
        """Return a copy of this account that has the same endpoints but cannot sign."""
        return _ReadOnlyAccount(self)


class _ReadOnlyAccount(SenderAccount):
    def __init__(self, account: SenderAccount) -> None:
        vars(self).update(vars(account))
        if account.has_keys:
            self._keys = ReporterKeys(
                _to_read_only_signer(account.keys.signer),
                _to_read_only_signer(account.keys.transmitter),
            )
        self._payer = _to_read_only_signer(account.payer if account.has_payer else None)


def _to_read_only_signer(key: Signer | None) -> Signer | None:
    return None if key is None else ReadOnlySigner(key.address)
