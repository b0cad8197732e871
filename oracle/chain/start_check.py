"""Start-up checks of the chain of every endpoint and of the contracts' code."""

from concurrent.futures import FIRST_COMPLETED, wait
from threading import BoundedSemaphore

from oracle.chain.contract_checks import NotTheContractError, check_code
from oracle.chain.profiles.event_reader import EventReader
from oracle.errors import TransientError
from oracle.rpc.background import in_background
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError, RpcTimeoutError

# How long the start waits for slow endpoints after another one has answered; how many endpoints
# are checked at once.
_GRACE_SECONDS = 5.0
_MOST_AT_ONCE = 16
# Errors for which an endpoint is quarantined, and errors that may go away.
_SETTINGS = {ErrorKind.REFUSED, ErrorKind.INVALID, ErrorKind.UNSUPPORTED}
_MAY_COME = set(ErrorKind) - _SETTINGS - {ErrorKind.QUARANTINED}


def check_endpoints(
    endpoints: EndpointPool, reader: EventReader, grace_seconds: float = _GRACE_SECONDS
) -> None:
    """Check the chain of every endpoint, and the code of the contracts on one of them.

    All endpoints are checked concurrently. Once one has answered, the others have `grace_seconds`
    more: a slow one counts as failed, and is checked again later. One of several that is on
        another chain, or rejects our requests, is quarantined.

    Raises:
        TransientError: no endpoint gives a valid answer, or too few report one of the following.
        InputError: all endpoints are on another chain.
        WrongContractError: all endpoints show that an address holds no contract, or another one
            than the profile reads.
    """
    failures = _prove_all(endpoints, grace_seconds)
    if failures and failures.keys() == set(endpoints):
        raise _silence(endpoints, list(failures.values()))
    for one, refusal in failures.items():
        if refusal.kind in _SETTINGS:
            endpoints.quarantine(one, refusal.words)
        else:
            # Other endpoints are used until this one recovers.
            endpoints.record_failure(one, refusal)
    _check_contracts(endpoints, reader)


def _prove_all(endpoints: EndpointPool, grace_seconds: float) -> dict[Endpoint, RpcError]:
    """Return the endpoints that could not be proven to be on our chain, and the errors."""
    slots = BoundedSemaphore(_MOST_AT_ONCE)

    def prove(endpoint: Endpoint) -> None:
        with slots:
            endpoints.prove(endpoint)

    asked = {
        endpoint: in_background(lambda endpoint=endpoint: prove(endpoint), "start check")  # type: ignore[misc]  # mypy cannot infer it
        for endpoint in endpoints
    }
    waiting = set(asked.values())
    while waiting:
        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        if any(one.exception() is None for one in ended):
            wait(waiting, grace_seconds)
            break
    failures: dict[Endpoint, RpcError] = {}
    for endpoint, future in asked.items():
        if not future.done():
            failures[endpoint] = RpcTimeoutError(endpoint.name, "answer")
        elif isinstance(error := future.exception(), RpcError):
            failures[endpoint] = error
        elif error is not None:
            raise error
    return failures


def _silence(endpoints: EndpointPool, failures: list[RpcError]) -> TransientError:
    if endpoints.listed.proven_wrong().keys() >= {one.endpoint for one in failures}:
        return failures[0]
    late = [error for error in failures if error.kind in _MAY_COME]
    wrong = endpoints.listed.proven_wrong()
    shut_out = f"; proven wrong, and not asked: {'; '.join(wrong.values())}" if wrong else ""
    first = [*late, *failures][0]
    silence = TransientError(f"[chain] endpoints: none answers: {first}{shut_out}")
    silence.retry_after = endpoints.listed.seconds_left(late)
    return silence


def _check_contracts(endpoints: EndpointPool, reader: EventReader) -> None:
    complaints: list[NotTheContractError] = []

    def look(endpoint: Endpoint) -> None:
        try:
            check_code(endpoint, reader)
        except NotTheContractError as complaint:
            complaints.append(complaint)
            raise RpcError(endpoint.name, ErrorKind.INVALID, str(complaint)) from None

    try:
        endpoints.use(look)
    except RpcError:
        # An endpoint that is stalled, or lost its data, reports a missing contract too.
        if len(complaints) == len(endpoints):
            raise complaints[0] from None
        raise
