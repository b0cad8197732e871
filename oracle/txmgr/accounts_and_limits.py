"""What signs and sends: endpoints, the keys, and the limits on what we spend."""

import time
from dataclasses import dataclass

from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.rpc.endpoints.backoff import Backoff
from oracle.rpc.pool import EndpointPool
from oracle.signing.key_locations import KeyFiles
from oracle.signing.local import KeySigner, ReadOnlySigner
from oracle.signing.signer import Fees, Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.client.fee_market import ask_market
from oracle.txmgr.client.fee_quote import Market, SendLimits, quote
from oracle.txmgr.client.send_raw import show_zeros


@dataclass(frozen=True, slots=True)
class ReporterKeys:
    """The signer signs statements and has no ether; the transmitter pays and has no rights.

    Either may be absent (None): a process that only signs, or only sends.

    Raises:
        InputError: both are the same key.
    """

    signer: Signer | None
    transmitter: Signer | None

    def __post_init__(self) -> None:
        signer, transmitter = self.signer, self.transmitter
        if signer is not None and transmitter is not None:
            _check_apart(signer, transmitter)

    @classmethod
    def open(cls, signer: KeyFiles, transmitter: KeyFiles) -> "ReporterKeys":
        """Unlock both.

        Raises:
            InputError: see `keys.unlock`; or both files hold the same key.
        """
        return cls(KeySigner.open(*signer), KeySigner.open(*transmitter))

    def check_other(self, third: Signer) -> None:
        """Make sure that a third key is neither of them: its nonces are counted apart.

        Raises:
            InputError: it is.
        """
        ours = {key.address for key in (self.signer, self.transmitter) if key is not None}
        if third.address in ours:
            raise InputError(
                f"dispatcher and signer or transmitter are the same key ({third.address})"
            )


def _check_apart(signer: Signer, transmitter: Signer) -> None:
    if signer.address == transmitter.address:
        raise InputError(
            f"signer and transmitter are the same key ({signer.address}): "
            "the signer's must not hold ether"
        )


class SenderAccount:
    """Made without keys it can only look and try; with keys it can sign, and so send."""

    def __init__(
        self,
        pool: EndpointPool,
        *,
        domain: Domain,
        caps: SendLimits,
        keys: ReporterKeys | Signer | None = None,
    ) -> None:
        """`keys` a single signer: it sends and pays, and there are no statements to sign."""
        self.pool = pool
        self.lines = pool.view()
        show_zeros(pool)
        self.domain = domain
        self.caps = caps
        # When a key that refused, or answered wrongly, may be asked again.
        self.signer_backoff = Backoff(time.monotonic)
        self.payer_backoff = Backoff(time.monotonic)
        self._keys = keys if isinstance(keys, ReporterKeys) else None
        self._payer = keys.transmitter if isinstance(keys, ReporterKeys) else keys

    @property
    def keys(self) -> ReporterKeys:
        """The keys of reports, one of them or both.

        Raises:
            InputError: none are configured.
        """
        if self._keys is None:
            raise InputError(
                "no keys are configured: set keys.signer_keystore and "
                "keys.transmitter_keystore with their password files"
            )
        return self._keys

    @property
    def has_keys(self) -> bool:
        return self._keys is not None

    @property
    def has_signer(self) -> bool:
        """Statements can be signed here."""
        return self._keys is not None and self._keys.signer is not None

    @property
    def has_payer(self) -> bool:
        """Transactions can be signed here."""
        return self._payer is not None

    @property
    def signer(self) -> Signer:
        """The key that signs statements. Ask it outside of database transactions.

        Raises:
            InputError: none is configured.
        """
        signer = self.keys.signer
        if signer is None:
            raise InputError("no signer is configured: [keys] names a transmitter only")
        return signer

    @property
    def payer(self) -> Signer:
        """The key that signs transactions: the transmitter, or the one key that there is.

        Raises:
            InputError: none is configured.
        """
        payer = self.keys.transmitter if self._payer is None else self._payer
        if payer is None:
            raise InputError("no transmitter is configured: [keys] names a signer only")
        return payer

    @property
    def sender(self) -> Address:
        """The address that transactions come from."""
        return self.payer.address

    def fees(self, cap: int | None = None) -> Fees | None:
        """Quote what a transaction pays now, within the cap; None: the cap is below the market.

        Raises:
            TransientError: no endpoint tells.
        """
        limit = self.caps.fee_per_gas
        return quote(self.market(), limit if cap is None else min(limit, cap))

    def market(self) -> Market:
        """Ask what the chain takes for gas now.

        Raises:
            TransientError: no endpoint tells.
        """
        return ask_market(self.lines, self.caps)

    def muted(self) -> "SenderAccount":
        """Return one of the same accounts that signs nothing; its lines are this one's."""
        return _Muted(self)


class _Muted(SenderAccount):
    def __init__(self, told: SenderAccount) -> None:
        vars(self).update(vars(told))
        if told.has_keys:
            self._keys = ReporterKeys(_mute(told.keys.signer), _mute(told.keys.transmitter))
        self._payer = _mute(told.payer if told.has_payer else None)


def _mute(key: Signer | None) -> Signer | None:
    return None if key is None else ReadOnlySigner(key.address)
