"""Reads all events from a chain with third-party contracts, without using the daemon.

The module runs as a separate process, `python -m devnet.crynux.chain_reading URL PROFILE
CONTRACTS`. CONTRACTS is a JSON object of names and addresses. The process prints events as JSON
lines, which `qos-oracle replay` reads. The process shares neither a database nor fetching code
with the daemon.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devnet.anvil import LocalChain
from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.events.jsonl import event_to_json
from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call, Log
from oracle.errors import FatalError


def iter_event_lines(
    chain: LocalChain, profile: str, contracts: Mapping[str, str]
) -> Iterator[str]:
    """Yield every event of the chain as a JSON line, ordered by position.

    Raises:
        FatalError: the profile cannot decode an event or a call of the network's contracts.
    """
    reader = EventReader.from_profile(profile, contracts, None)
    for block_number in range(int(chain.make_request("eth_blockNumber"), 16) + 1):
        block = chain.make_request("eth_getBlockByNumber", hex(block_number), True)
        receipts = chain.make_request("eth_getBlockReceipts", hex(block_number))
        logs = [_parse_log(log, block) for receipt in receipts for log in receipt["logs"]]
        transactions_with_receipts = zip(block["transactions"], receipts, strict=True)
        calls = [
            _parse_call(*pair, block)
            for pair in transactions_with_receipts
            if pair[0]["to"] in contracts.values()
        ]
        decoded_events = reader.decode_rows(logs, calls)
        if decoded_events.dead_letters:
            raise FatalError(
                f"{profile}: cannot decode {decoded_events.dead_letters[0].name}: "
                f"{decoded_events.dead_letters[0].error}"
            )
        for event in decoded_events.events:
            yield event_to_json(event)


def _parse_log(log_json: dict[str, Any], block: dict[str, Any]) -> Log:
    return Log(
        block=int(log_json["blockNumber"], 16),
        block_hash=Hash(log_json["blockHash"]),
        time=int(block["timestamp"], 16),
        tx=int(log_json["transactionIndex"], 16),
        tx_hash=Hash(log_json["transactionHash"]),
        index=int(log_json["logIndex"], 16),
        address=Address(log_json["address"]),
        topics=tuple(log_json["topics"]),
        data=log_json["data"],
    )


def _parse_call(
    transaction: dict[str, Any], receipt: dict[str, Any], block: dict[str, Any]
) -> Call:
    return Call(
        block=int(transaction["blockNumber"], 16),
        block_hash=Hash(transaction["blockHash"]),
        time=int(block["timestamp"], 16),
        tx=int(transaction["transactionIndex"], 16),
        tx_hash=Hash(transaction["hash"]),
        sender=Address(transaction["from"]),
        to=Address(transaction["to"]),
        value=int(transaction["value"], 16),
        input=transaction["input"],
        succeeded=receipt["status"] == "0x1",
    )


def main(arguments: Sequence[str]) -> int:
    """Print the events, or return 1 with a one-line message if they cannot be read."""
    url, profile, contracts = arguments
    chain = LocalChain(url)
    try:
        for line in iter_event_lines(chain, profile, json.loads(contracts)):
            sys.stdout.write(line + "\n")
    except FatalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        chain.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
