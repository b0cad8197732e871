"""Reads all events of a chain with third-party contracts, independently of the daemon.

Run as a separate process: `python -m devnet.crynux.chain_reading URL PROFILE CONTRACTS`, where
CONTRACTS is a JSON object of names and addresses. The process prints events as JSON lines, which
`qos-oracle replay` reads; it shares neither a database nor fetching code with the daemon.
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


def events_of(chain: LocalChain, profile: str, contracts: Mapping[str, str]) -> Iterator[str]:
    """Yield every event of the chain as a JSON line, ordered by position.

    Raises:
        FatalError: the profile cannot decode an event or call of its own contracts.
    """
    reader = EventReader.from_profile(profile, contracts, None)
    for number in range(int(chain.ask("eth_blockNumber"), 16) + 1):
        block = chain.ask("eth_getBlockByNumber", hex(number), True)
        receipts = chain.ask("eth_getBlockReceipts", hex(number))
        logs = [_log(one, block) for receipt in receipts for one in receipt["logs"]]
        both = zip(block["transactions"], receipts, strict=True)
        calls = [_call(*one, block) for one in both if one[0]["to"] in contracts.values()]
        told = reader.decode_rows(logs, calls)
        if told.dead_letters:
            raise FatalError(
                f"{profile} cannot read {told.dead_letters[0].name}: {told.dead_letters[0].error}"
            )
        for event in told.events:
            yield event_to_json(event)


def _log(given: dict[str, Any], block: dict[str, Any]) -> Log:
    return Log(
        block=int(given["blockNumber"], 16),
        block_hash=Hash(given["blockHash"]),
        time=int(block["timestamp"], 16),
        tx=int(given["transactionIndex"], 16),
        tx_hash=Hash(given["transactionHash"]),
        index=int(given["logIndex"], 16),
        address=Address(given["address"]),
        topics=tuple(given["topics"]),
        data=given["data"],
    )


def _call(sent: dict[str, Any], receipt: dict[str, Any], block: dict[str, Any]) -> Call:
    return Call(
        block=int(sent["blockNumber"], 16),
        block_hash=Hash(sent["blockHash"]),
        time=int(block["timestamp"], 16),
        tx=int(sent["transactionIndex"], 16),
        tx_hash=Hash(sent["hash"]),
        sender=Address(sent["from"]),
        to=Address(sent["to"]),
        value=int(sent["value"], 16),
        input=sent["input"],
        succeeded=receipt["status"] == "0x1",
    )


def main(arguments: Sequence[str]) -> int:
    """Print the events; return 1 with a one-line message if they cannot be read."""
    url, profile, contracts = arguments
    chain = LocalChain(url)
    try:
        for line in events_of(chain, profile, json.loads(contracts)):
            sys.stdout.write(line + "\n")
    except FatalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        chain.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
