"""Checks at startup that all endpoints serve the chain and that the contracts have code."""

from concurrent.futures import FIRST_COMPLETED, wait
from threading import BoundedSemaphore

from oracle.chain.contract_checks import WrongContractError, verify_contract_code
from oracle.chain.profiles.event_reader import EventReader
from oracle.errors import TransientError
from oracle.rpc.background import run_in_background
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError, RpcTimeoutError

# After the first response, startup waits this long for slower endpoints. At most this many checks
# run concurrently.
_GRACE_SECONDS = 5.0
_MAX_CONCURRENT = 16
# An endpoint with one of these errors counts as configured wrongly and is quarantined. All other
# errors may be temporary.
_CONFIGURATION_ERRORS = {ErrorKind.REFUSED, ErrorKind.INVALID, ErrorKind.UNSUPPORTED}
_TEMPORARY_ERRORS = set(ErrorKind) - _CONFIGURATION_ERRORS - {ErrorKind.QUARANTINED}


def check_endpoints(
    endpoints: EndpointPool, reader: EventReader, grace_seconds: float = _GRACE_SECONDS
) -> None:
    """Check the chain of all endpoints, and the contracts' code on one endpoint.

    All endpoints are checked concurrently. After the first endpoint has answered, the others have
    `grace_seconds` more. A slower endpoint counts as failed and is checked again later. If there
    are several endpoints, those that are on another chain or that reject requests are quarantined.

    Raises:
        TransientError: no endpoint gives a valid answer, or only some endpoints report one of the
            errors below.
        InputError: all endpoints are on another chain.
        WrongContractError: according to all endpoints, an address has no contract, or another one
            than the profile describes.
    """
    failures = _collect_chain_proof_failures(endpoints, grace_seconds)
    if failures and failures.keys() == set(endpoints):
        raise _build_unavailable_error(endpoints, list(failures.values()))
    for endpoint, error in failures.items():
        if error.kind in _CONFIGURATION_ERRORS:
            endpoints.quarantine(endpoint, error.detail)
        else:
            # The failure is recorded so that other endpoints are used until this one recovers.
            endpoints.record_failure(endpoint, error)
    _check_contract_code(endpoints, reader)


def _collect_chain_proof_failures(
    endpoints: EndpointPool, grace_seconds: float
) -> dict[Endpoint, RpcError]:
    """Return the endpoints not proven to be on the chain, with their errors."""
    check_slots = BoundedSemaphore(_MAX_CONCURRENT)

    def prove_endpoint_chain(endpoint: Endpoint) -> None:
        with check_slots:
            endpoints.prove_chain(endpoint)

    future_by_endpoint = {
        endpoint: run_in_background(
            lambda endpoint=endpoint: prove_endpoint_chain(endpoint),  # type: ignore[misc]  # no inference
            "start check",
        )
        for endpoint in endpoints
    }
    unfinished_futures = set(future_by_endpoint.values())
    while unfinished_futures:
        finished_futures, unfinished_futures = wait(
            unfinished_futures, return_when=FIRST_COMPLETED
        )
        if any(finished_future.exception() is None for finished_future in finished_futures):
            wait(unfinished_futures, grace_seconds)
            break
    failure_by_endpoint: dict[Endpoint, RpcError] = {}
    for endpoint, future in future_by_endpoint.items():
        if not future.done():
            failure_by_endpoint[endpoint] = RpcTimeoutError(endpoint.name, "answer")
        elif isinstance(error := future.exception(), RpcError):
            failure_by_endpoint[endpoint] = error
        elif error is not None:
            raise error
    return failure_by_endpoint


def _build_unavailable_error(endpoints: EndpointPool, failures: list[RpcError]) -> TransientError:
    if endpoints.endpoint_list.get_proven_wrong_reasons().keys() >= {
        failure.endpoint for failure in failures
    }:
        return failures[0]
    temporary_errors = [error for error in failures if error.kind in _TEMPORARY_ERRORS]
    reason_by_wrong_endpoint = endpoints.endpoint_list.get_proven_wrong_reasons()
    wrong_endpoints_note = (
        f"; not used because proven wrong: {'; '.join(reason_by_wrong_endpoint.values())}"
        if reason_by_wrong_endpoint
        else ""
    )
    first_error = [*temporary_errors, *failures][0]
    unavailable_error = TransientError(
        f"[chain] endpoints: no endpoint answers: {first_error}{wrong_endpoints_note}"
    )
    unavailable_error.retry_after = endpoints.endpoint_list.compute_seconds_until_usable(
        temporary_errors
    )
    return unavailable_error


def _check_contract_code(endpoints: EndpointPool, reader: EventReader) -> None:
    mismatches: list[WrongContractError] = []

    def check_endpoint_contracts(endpoint: Endpoint) -> None:
        try:
            verify_contract_code(endpoint, reader)
        except WrongContractError as mismatch:
            mismatches.append(mismatch)
            raise RpcError(endpoint.name, ErrorKind.INVALID, str(mismatch)) from None

    try:
        endpoints.run_with_endpoint(check_endpoint_contracts)
    except RpcError:
        # The mismatch counts only if every endpoint reports it, because an endpoint that has
        # stalled or lost its data does not find an existing contract.
        if len(mismatches) == len(endpoints):
            raise mismatches[0] from None
        raise
