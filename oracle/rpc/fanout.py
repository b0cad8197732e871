"""The endpoints as who sends sees them: asked one after the other, or all for their agreement.

Everything is asked once. Who is quarantined, or wants to be left alone, counts as silent.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from typing_extensions import override

from oracle.errors import TransientError
from oracle.rpc.client import Json, RpcRequest
from oracle.rpc.endpoints.endpoint import Endpoint
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

    def ask_all(self, asked: Sequence[RpcRequest]) -> list[Json]:
        """Return the results of several requests, in their order, from one batch.

        Raises:
            CallRefusedError: one of them was refused.
            RpcError: an answer is missing, or it is not asked now.
        """
        answers = self.ask_each(asked)
        for answer in answers:
            if isinstance(answer, CallRefusedError):
                raise answer
        return answers

    def ask_each(self, asked: Sequence[RpcRequest]) -> "list[Json | CallRefusedError]":
        """Return the results of several requests, or why one was refused, in their order.

        Raises:
            RpcError: an answer is missing, or it is not asked now.
        """
        quarantined = self.endpoint.status.quarantined
        if quarantined is not None:
            raise RpcError(self.name, ErrorKind.QUARANTINED, quarantined)
        return self._asked(asked)

    def supports(self, chain_id: int) -> bool:
        """Tell whether it is an endpoint of this chain; asked until it is, and after a silence.

        One that is quarantined is asked as well, for it may be for that; not who lied to us.

        Raises:
            CallRefusedError: it does not say.
            RpcError: no answer.
        """
        endpoint = self.endpoint
        if endpoint.status.until_readmitted:
            raise RpcError(self.name, ErrorKind.QUARANTINED, endpoint.status.quarantined or "")
        if endpoint.chain_id != chain_id:
            (answer,) = self._asked([("eth_chainId", ())])
            if isinstance(answer, CallRefusedError):
                raise answer
            try:
                endpoint.chain_id = int(answer, 16)
            except (TypeError, ValueError):
                raise RpcError(self.name, ErrorKind.INVALID, "eth_chainId: no number") from None
        return endpoint.chain_id == chain_id

    def has_reached(self, block: int) -> bool:
        """Tell whether its newest block is this one or a later one; who is silent has not."""
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

    def _asked(self, asked: Sequence[RpcRequest]) -> "list[Json | CallRefusedError]":
        try:
            return self.endpoint.client.batch_of(asked, timeout_seconds=self._timeout_seconds)
        except CallRefusedError:
            raise
        except RpcError:
            self.endpoint.fell_silent()
            raise


class PoolView:
    """Endpoints of a pool, the preferred one first; all of them, or those of them that are fit."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        timeout_seconds: float,
        *,
        configured: int | None = None,
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._timeout_seconds = timeout_seconds
        self._configured = len(self._endpoints) if configured is None else configured

    @property
    def all(self) -> tuple[EndpointCaller, ...]:
        """Each of them, in the order of the settings, also those that are not asked now."""
        return tuple(EndpointCaller(one, self._timeout_seconds) for one in self._endpoints)

    @property
    def quorum(self) -> int:
        """How many have to agree on what cannot be taken back: two, or the only one.

        Of those that are configured: where one of two is quarantined, nobody decides alone.
        """
        return min(2, self._configured)

    def singly(self) -> "tuple[PoolView, ...]":
        """Return each endpoint by itself."""
        return tuple(self._of([one]) for one in self._endpoints)

    def that_reached(self, block: int) -> "PoolView":
        """Return those that have come as far as a block that is known; all, where none has.

        What one says of its newest block that stands still behind is long over.
        """
        if len(self._endpoints) < 2:  # noqa: PLR2004  there is no other to ask
            return self
        reached = [one.endpoint for one in self.all if one.has_reached(block)]
        return self._of(reached) if reached else self

    def that_answer(self, chain_id: int) -> "PoolView":
        """Return those that say which chain they serve, this or another one.

        Raises:
            TransientError: none says it.
        """

        def read(one: EndpointCaller) -> Endpoint:
            one.supports(chain_id)
            return one.endpoint

        return self._of([endpoint for _, endpoint in self.each(read)])

    def check_chain(self, chain_id: int) -> None:
        """Make sure that every endpoint is of this chain; one that is silent is asked again later.

        Asked before every signature; costs nothing once they have answered.

        Raises:
            TransientError: one is of another chain; it may be put right while we wait.
        """
        for one in self.all:
            try:
                is_ours = one.supports(chain_id)
            except TransientError:
                continue
            if not is_ours:
                raise TransientError(
                    f"[chain] endpoints: {one.name} does not serve chain {chain_id}; "
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
        for one in self.all:
            try:
                return one.ask_all(requests)
            except RevertError:
                raise
            except TransientError as error:
                failures.append(error)
        refusals = [error for error in failures if isinstance(error, CallRefusedError)]
        raise [*refusals, *failures][0]

    def first_that(self, read: Callable[[EndpointCaller], Read]) -> Read:
        """Return what the preferred endpoint tells, or the next one where it tells nothing.

        Raises:
            TransientError: none tells.
        """
        failures: list[TransientError] = []
        for one in self.all:
            try:
                return read(one)
            except TransientError as error:
                failures.append(error)
        raise failures[0]

    def each(self, read: Callable[[EndpointCaller], Read]) -> "list[tuple[str, Read]]":
        """Return what every endpoint tells, by name; who tells nothing is not in it.

        Raises:
            TransientError: none tells.
        """
        told: list[tuple[str, Read]] = []
        failures: list[TransientError] = []
        for one in self.all:
            try:
                told.append((one.name, read(one)))
            except TransientError as error:
                failures.append(error)
        if not told:
            raise failures[0]
        return told

    def median_of(self, read: Callable[[EndpointCaller], int]) -> int:
        """Return the middle one of what the endpoints tell, of two the lower.

        Raises:
            TransientError: none tells.
        """
        return statistics.median_low([number for _, number in self.each(read)])

    def _of(self, endpoints: Sequence[Endpoint]) -> "PoolView":
        return PoolView(endpoints, self._timeout_seconds, configured=self._configured)


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Take an answer that is not what was asked for as none; `what` names it.

    Raises:
        TransientError: it is not.
    """
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
