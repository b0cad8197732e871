"""Read all events of a contract with eth-defi's reader, and write one CSV line for each.

Run by benchmarks/peers/compare.py: read_events.py URL ADDRESS ABI_FILE CSV_FILE
As the documentation of `MultithreadEventReader` shows: a filter of event classes, ten threads,
topics and data words converted for each event. Times of blocks are not requested, because each
would cost a request. Nothing is derived, verified or kept for a reorg.
"""

import csv
import json
import sys
from pathlib import Path

from eth_defi.event_reader.conversion import decode_data  # type: ignore[import-not-found]
from eth_defi.event_reader.filter import Filter  # type: ignore[import-not-found]
from eth_defi.event_reader.multithread import (  # type: ignore[import-not-found]
    MultithreadEventReader,
)
from eth_defi.event_reader.web3factory import TunedWeb3Factory  # type: ignore[import-not-found]


def main() -> None:
    url, address, abi_file, csv_file = sys.argv[1:]
    web3 = TunedWeb3Factory(url)()
    contract = web3.eth.contract(
        web3.to_checksum_address(address), abi=json.loads(Path(abi_file).read_text("utf-8"))["abi"]
    )
    event_classes = [
        contract.events[item["name"]] for item in contract.abi if item["type"] == "event"
    ]
    last_block = int(web3.manager.request_blocking("eth_blockNumber", ()), 16)
    reader = MultithreadEventReader(url, max_threads=10, max_blocks_once=1000)
    with Path(csv_file).open("w", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        events = reader(
            web3, 1, last_block, filter=Filter.create_filter(address.lower(), event_classes)
        )
        for event in events:
            arguments = [
                *(topic[2:] for topic in event["topics"][1:]),
                *(word.hex() for word in decode_data(event["data"])),
            ]
            writer.writerow(
                [
                    event["blockNumber"],
                    event["logIndex"],
                    event["blockHash"],
                    event["transactionHash"],
                    event["event"].event_name,
                    " ".join(arguments),
                ]
            )
    reader.close()


if __name__ == "__main__":
    main()
