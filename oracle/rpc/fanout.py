"""The endpoints as the sending side sees them: one after the other, or all for their agreement.

Every request is sent once. An endpoint that is quarantined, or asks to be left alone, counts as
silent.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from typing_extensions import override

from oracle.errors import TransientError
from oracle.rpc.client import Json, RpcRequest
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.rpc_errors import CallRefusedError, ErrorKind, RevertError, RpcError

Read = TypeVar("Read")


class EndpointCaller:
    """One endpoint. An answer may take `timeout_seconds` to begin."""

    def __init__(self, endpoint: Endpoint, timeout_seconds: float) -> None:
        self.endpoint = endpoint
        self._timeout_seconds = timeout_seconds

    @override
    def __repr__(self) -> str:
        return f"EndpointCaller({self.name})"

    @property
    def name(self) -> str:
        """Scheme, host and port."""
        return self.endpoint.name

    def ask(self, method: str, *parameters: object) -> Json:
        """Return the result.

        Raises:
            CallRefusedError: the endpoint answered with an error.
            RpcError: no answer, or none that is JSON-RPC, or it is not asked now.
        """
        return self.ask_all([(method, parameters)])[0]

    def ask_all(self, requests: Sequence[RpcRequest]) -> list[Json]:
        """Return the results of several requests, in their order, from one batch.

        Raises:
            CallRefusedError: one of them was refused.
            RpcError: an answer is missing, or it is not asked now.
        """
        answers = self.ask_each(requests)
        for answer in answers:
            if isinstance(answer, CallRefusedError):
                raise answer
        return answers

    def ask_each(self, requests: Sequence[RpcRequest]) -> "list[Json | CallRefusedError]":
        """Return the results of several requests, or why one was refused, in their order.

        Raises:
            RpcError: an answer is missing, or it is not asked now.
        """
        quarantined = self.endpoint.status.quarantined
        if quarantined is not None:
            raise RpcError(self.name, ErrorKind.QUARANTINED, quarantined)
        return self._send(requests)

    def supports(self, chain_id: int) -> bool:
        """Tell whether the endpoint serves this chain; asked until it does, and after a silence.

        A quarantined endpoint is asked as well, because another chain may be the reason; one that
        was proven wrong is not.

        Raises:
            CallRefusedError: the endpoint does not report its chain.
            RpcError: no answer.
        """
        endpoint = self.endpoint
        if endpoint.status.until_readmitted:
            raise RpcError(self.name, ErrorKind.QUARANTINED, endpoint.status.quarantined or "")
        if endpoint.chain_id != chain_id:
            (answer,) = self._send([("eth_chainId", ())])
            if isinstance(answer, CallRefusedError):
                raise answer
            try:
                endpoint.chain_id = int(answer, 16)
            except (TypeError, ValueError):
                raise RpcError(self.name, ErrorKind.INVALID, "eth_chainId: no number") from None
        return endpoint.chain_id == chain_id

    def has_reached(self, block: int) -> bool:
        """Tell whether the endpoint's newest block is this one or later; False without answer."""
        if self.endpoint.status.quarantined is not None:
            return False
        if self.endpoint.is_known_to_reach(block):
            return True
        try:
            is_there = int(self.ask("eth_blockNumber"), 16) >= block
        except (TransientError, TypeError, ValueError):
            return False
        if is_there:
            self.endpoint.reaches(block)
        return is_there

    def _send(self, requests: Sequence[RpcRequest]) -> "list[Json | CallRefusedError]":
        try:
            return self.endpoint.client.batch_of(requests, timeout_seconds=self._timeout_seconds)
        except CallRefusedError:
            raise
        except RpcError:
            self.endpoint.fell_silent()
            raise


class PoolView:
    """Endpoints of a pool, the preferred one first: all of them, or a usable part."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        timeout_seconds: float,
        quorum: WitnessQuorum,
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._timeout_seconds = timeout_seconds
        # How many have to agree on what cannot be taken back, of those that are configured.
        self.quorum = quorum

    @property
    def all(self) -> tuple[EndpointCaller, ...]:
        """Every endpoint in the order of the settings, also those that are not asked now."""
        return tuple(
            EndpointCaller(endpoint, self._timeout_seconds) for endpoint in self._endpoints
        )

    def singly(self) -> "tuple[PoolView, ...]":
        """Return each endpoint by itself."""
        return tuple(self._of([endpoint]) for endpoint in self._endpoints)

    def that_reached(self, block: int) -> "PoolView":
        """Return the endpoints that have reached a block; all, where none has.

        The newest block of an endpoint that stands still behind it is long over.
        """
        if len(self._endpoints) < 2:  # noqa: PLR2004  there is no other to ask
            return self
        reached = [caller.endpoint for caller in self.all if caller.has_reached(block)]
        return self._of(reached) if reached else self

    def that_answer(self, chain_id: int) -> "PoolView":
        """Return the endpoints that report which chain they serve, this or another one.

        Raises:
            TransientError: none reports it.
        """

        def read(caller: EndpointCaller) -> Endpoint:
            caller.supports(chain_id)
            return caller.endpoint

        return self._of([endpoint for _, endpoint in self.each(read)])

    def check_chain(self, chain_id: int) -> None:
        """Check that no endpoint serves another chain; a silent one is asked again later.

        Called before every signature; it costs nothing once the endpoints have answered.

        Raises:
            TransientError: one is of another chain; that may be corrected while the daemon waits.
        """
        for caller in self.all:
            try:
                is_ours = caller.supports(chain_id)
            except TransientError:
                continue
            if not is_ours:
                raise TransientError(
                    f"[chain] endpoints: {caller.name} does not serve chain {chain_id}; "
                    "nothing is signed: put the address or chain.id right"
                )

    def ask(self, method: str, *parameters: object) -> Json:
        """Return the first answer to one request; see `first`."""
        return self.first([(method, parameters)])[0]

    def first(self, requests: Sequence[RpcRequest]) -> list[Json]:
        """Return the results of several requests, all from the first endpoint that gives them.

        Only a revert, the EVM's own word, is an answer for all.

        Raises:
            RevertError: a call reverts.
            CallRefusedError: every endpoint that answered refused to.
            TransientError: none answered.
        """
        failures: list[TransientError] = []
        for caller in self.all:
            try:
                return caller.ask_all(requests)
            except RevertError:
                raise
            except TransientError as error:
                failures.append(error)
        refusals = [error for error in failures if isinstance(error, CallRefusedError)]
        raise [*refusals, *failures][0]

    def first_that(self, read: Callable[[EndpointCaller], Read]) -> Read:
        """Return what `read` returns at the preferred endpoint, or at the next that answers.

        Raises:
            TransientError: none answers.
        """
        failures: list[TransientError] = []
        for caller in self.all:
            try:
                return read(caller)
            except TransientError as error:
                failures.append(error)
        raise failures[0]

    def each(self, read: Callable[[EndpointCaller], Read]) -> "list[tuple[str, Read]]":
        """Return what `read` returns at every endpoint that answers, with the endpoint's name.

        Raises:
            TransientError: none answers.
        """
        answers: list[tuple[str, Read]] = []
        failures: list[TransientError] = []
        for caller in self.all:
            try:
                answers.append((caller.name, read(caller)))
            except TransientError as error:
                failures.append(error)
        if not answers:
            raise failures[0]
        return answers

    def median_of(self, read: Callable[[EndpointCaller], int]) -> int:
        """Return the median of what the witnesses report, of two the lower.

        Several endpoints of one witness count once, by the median of their answers.

        Raises:
            TransientError: no endpoint answers.
        """
        by_witness: dict[str, list[int]] = defaultdict(list)
        for endpoint, number in self.each(read):
            by_witness[self.quorum.witness_of(endpoint)].append(number)
        return statistics.median_low(map(statistics.median_low, by_witness.values()))

    def _of(self, endpoints: Sequence[Endpoint]) -> "PoolView":
        return PoolView(endpoints, self._timeout_seconds, self.quorum)


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Raise TransientError for an answer of another form than expected; `what` names it."""
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        reason = type(error).__name__
        raise TransientError(
            f"an endpoint answered something else than {what} ({reason})"
        ) from None


def number_of(answer: Json) -> int:
    """Read a quantity, `0x` and hex digits.

    Raises:
        ValueError, TypeError: it is none.
    """
    number = int(answer, 16)
    if number < 0:
        raise ValueError(f"{answer} is no quantity")
    return number
