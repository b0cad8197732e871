"""What a chain of somebody else's contracts says, read whole and without the daemon.

Run as a process of its own: `python -m devnet.crynux.chain_reading URL PROFILE CONTRACTS`,
the last one names and addresses as JSON. It prints events as JSON lines, which `qos-oracle replay`
takes: neither shares a database with the daemon, nor a way of fetching.
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
    """Yield every event of the chain in order of position, as JSON lines.

    Raises:
        FatalError: the profile cannot read something of its own contracts.
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
    """Print the events; exit code 1 with one line where they cannot be read."""
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
