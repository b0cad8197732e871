"""Makes sure that the addresses of the settings hold the contracts that we read."""

from oracle.chain.profiles.event_reader import EventReader
from oracle.errors import InputError
from oracle.rpc.client import Endpoint
from oracle.rpc.rpc_errors import ErrorKind, RpcError


class NotTheContractError(InputError):
    """An address holds no contract, or another one than the profile reads."""


def check_code(endpoint: Endpoint, reader: EventReader) -> None:
    """Look for each event that we read in the code of its contract.

    The first topic of an event stands in the code that says it, as it is. Behind a proxy the
    code is elsewhere, so only that there is any is looked at.

    Raises:
        EndpointError: no answer, or null, which says nothing of an address.
        NotTheContractError: an address holds no contract, or one that says other events.
    """
    addresses = list(reader.contracts)
    codes = endpoint.batch("eth_getCode", [[address, "latest"] for address in addresses], str)
    for address, code in zip(addresses, codes, strict=True):
        contract, topics = reader.contracts[address]
        where = f"{contract} at {address}"
        if code is None:
            raise RpcError(endpoint.name, ErrorKind.INVALID, f"{where}: null instead of its code")
        if code in {"", "0x"}:
            raise NotTheContractError(
                f"{where}: there is no contract at this address of this chain"
            )
        known = reader.profile.contracts.get(contract)
        if known is not None and known.is_proxy:
            continue
        missing = [topic for topic in topics if _pushed(topic) not in str(code).lower()]
        if missing:
            names = ", ".join(sorted(map(reader.name_of, missing)))
            raise NotTheContractError(
                f"{where}: another contract, or another version: never says {names}"
            )


def _pushed(topic: str) -> str:
    """Return the topic as code holds it: compilers leave leading zero bytes out."""
    digits = topic[2:]
    while digits.startswith("00"):
        digits = digits[2:]
    return digits
