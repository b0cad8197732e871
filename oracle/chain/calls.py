"""Reads the calls that some logs can only be understood with."""

from collections.abc import Sequence

from oracle.chain.answers import TransactionAnswer, number
from oracle.chain.endpoint import Endpoint
from oracle.chain.failures import EndpointError, Kind
from oracle.chain.reader import Reader
from oracle.domain.ids import Address
from oracle.domain.logs import Call, Log
from oracle.errors import FatalError


def calls_of(endpoint: Endpoint, logs: Sequence[Log], reader: Reader) -> list[Call]:
    """Fetch the transactions of these logs; that they succeeded, the logs prove.

    Raises:
        EndpointError: one is missing, or is not the one that made its log.
    """
    by_hash = {log.tx_hash: log for log in logs}
    params = [[tx_hash] for tx_hash in by_hash]
    answers = endpoint.batch("eth_getTransactionByHash", params, TransactionAnswer)
    calls = [
        _call(endpoint.name, log, answer)
        for log, answer in zip(by_hash.values(), answers, strict=True)
    ]
    try:
        reader.read(logs, calls)
    except FatalError as error:
        # An input that is not the call's: another endpoint may know the right one.
        raise EndpointError(endpoint.name, Kind.INVALID, str(error)) from None
    return calls


def _call(endpoint: str, log: Log, answer: TransactionAnswer | None) -> Call:
    if answer is None:
        raise EndpointError(endpoint, Kind.NOT_THERE, f"no transaction {log.tx_hash}")
    if answer.hash.lower() != log.tx_hash or (answer.block_hash or "").lower() != log.block_hash:
        raise EndpointError(endpoint, Kind.INVALID, f"another transaction for {log.tx_hash}")
    if (answer.to or "").lower() != log.address:
        raise EndpointError(endpoint, Kind.INVALID, f"{log.tx_hash} calls another contract")
    return Call(
        log.block,
        log.block_hash,
        log.time,
        log.tx,
        log.tx_hash,
        Address(answer.sender.lower()),
        log.address,
        number(endpoint, answer.value),
        answer.input.lower(),
        succeeded=True,
    )
