"""What is looked at before anything is read: every endpoint's chain, and the contracts' code."""

from oracle.chain.contract_checks import NotTheContractError, check_code
from oracle.chain.profiles.event_reader import EventReader
from oracle.errors import TransientError
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# What one of several is left out for, and what may be waited for.
_SETTINGS = {ErrorKind.REFUSED, ErrorKind.INVALID, ErrorKind.UNSUPPORTED}
_MAY_COME = set(ErrorKind) - _SETTINGS - {ErrorKind.QUARANTINED}


def check_endpoints(endpoints: EndpointPool, reader: EventReader) -> None:
    """Ask every endpoint for its chain, and for the code of the contracts until one has it.

    One of several that is on another chain, or refuses us, is quarantined.

    Raises:
        TransientError: none answers as an endpoint does, or too few say the following.
        InputError: all are on another chain.
        NotTheContractError: all say of an address that it holds no contract, or another one
            than the profile reads.
    """
    failures: dict[Endpoint, RpcError] = {}
    for endpoint in endpoints:
        try:
            endpoints.prove(endpoint)
        except RpcError as error:
            failures[endpoint] = error
    if failures and failures.keys() == set(endpoints):
        raise _silence(endpoints, list(failures.values()))
    for one, refusal in failures.items():
        if refusal.kind in _SETTINGS:
            endpoints.quarantine(one, refusal.words)
    _check_contracts(endpoints, reader)


def _silence(endpoints: EndpointPool, failures: list[RpcError]) -> TransientError:
    if endpoints.listed.proven_wrong().keys() >= {one.endpoint for one in failures}:
        return failures[0]
    late = [error for error in failures if error.kind in _MAY_COME]
    silence = TransientError(f"[chain] endpoints: none answers: {[*late, *failures][0]}")
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
