"""What is looked at before anything is read: every endpoint's chain, and the contracts' code."""

from concurrent.futures import FIRST_COMPLETED, wait
from threading import BoundedSemaphore

from oracle.chain.contract_checks import NotTheContractError, check_code
from oracle.chain.profiles.event_reader import EventReader
from oracle.errors import TransientError
from oracle.rpc.background import in_background
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError, RpcTimeoutError

# How long a slow endpoint holds up the start after another one has answered; how many are asked
# at once.
_GRACE_SECONDS = 5.0
_MOST_AT_ONCE = 16
# What one of several is left out for, and what may be waited for.
_SETTINGS = {ErrorKind.REFUSED, ErrorKind.INVALID, ErrorKind.UNSUPPORTED}
_MAY_COME = set(ErrorKind) - _SETTINGS - {ErrorKind.QUARANTINED}


def check_endpoints(
    endpoints: EndpointPool, reader: EventReader, grace_seconds: float = _GRACE_SECONDS
) -> None:
    """Ask every endpoint for its chain, and for the code of the contracts until one has it.

    All are asked at the same time. Where one has answered, the others are waited for
    `grace_seconds` more: a slow one counts as failed, and is asked again later. One of several
    that is on another chain, or refuses us, is quarantined.

    Raises:
        TransientError: none answers as an endpoint does, or too few say the following.
        InputError: all are on another chain.
        NotTheContractError: all say of an address that it holds no contract, or another one
            than the profile reads.
    """
    failures = _prove_all(endpoints, grace_seconds)
    if failures and failures.keys() == set(endpoints):
        raise _silence(endpoints, list(failures.values()))
    for one, refusal in failures.items():
        if refusal.kind in _SETTINGS:
            endpoints.quarantine(one, refusal.words)
        else:
            # Others do the work until it says that it is back.
            endpoints.record_failure(one, refusal)
    _check_contracts(endpoints, reader)


def _prove_all(endpoints: EndpointPool, grace_seconds: float) -> dict[Endpoint, RpcError]:
    """Return which endpoints are not proven to be of our chain, and why."""
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
        # One that stands still, or has lost the chain, says so too.
        if len(complaints) == len(endpoints):
            raise complaints[0] from None
        raise
