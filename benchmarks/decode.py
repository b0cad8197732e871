"""Measure decoding alone, compared with eth_abi and web3's `process_log`.

Run: .venv/bin/python benchmarks/decode.py [--events 20000]
The logs are ordinary traffic of the reference network. "bytes to events" is the complete
processing of a response to `eth_getLogs`: JSON, checks, decoding, and the translation to domain
events.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from eth_abi.abi import decode as abi_decode
from rich.console import Console
from rich.table import Table
from web3 import Web3
from web3._utils.method_formatters import log_entry_formatter
from web3.datastructures import AttributeDict

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.ordinary_traffic import create_chain  # noqa: E402
from oracle.chain.decode.abi import AbiSignature, load_abi  # noqa: E402
from oracle.chain.decode.log_decoder import build_log_decoder  # noqa: E402
from oracle.chain.log_filter import LogFilter, validate_logs  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.domain.blocks import BlockRange  # noqa: E402
from oracle.domain.logs import Log  # noqa: E402
from oracle.resources import find_shipped_path  # noqa: E402
from oracle.rpc.endpoints.learned_limits import TARGET_LOGS  # noqa: E402
from oracle.rpc.replies import JsonRpcResponse  # noqa: E402
from oracle.rpc.responses import LogResponse  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

ROUNDS = 3
TARGET_MICROSECONDS = 5.0
# Exit code of a run that succeeded but missed its target.
MISSED_EXIT_CODE = 3
# web3 and eth_abi are so slow that they decode only this many logs. Their time per log does not
# depend on the number.
SAMPLE_LOGS = 2_000
DECODER = msgspec.json.Decoder(JsonRpcResponse[list[LogResponse]])

DecodeRun = Callable[[], int]


def measure_microseconds_per_log(decode: DecodeRun) -> float:
    """Return the CPU microseconds per log, in the best of several rounds."""
    microseconds_by_round = []
    for _ in range(ROUNDS):
        gc.collect()
        start = time.thread_time()
        logs = decode()
        microseconds_by_round.append((time.thread_time() - start) / logs)
    return min(microseconds_by_round) * 1e6


def create_reader_and_filter() -> tuple[EventReader, LogFilter]:
    reader = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, None)
    return reader, LogFilter(frozenset(reader.addresses), frozenset(reader.topics))


def build_response(raw_logs: list[bytes]) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":[' + b",".join(raw_logs) + b"]}"


def prepare_response_decoding(raw_logs: list[bytes], last_block: int) -> DecodeRun:
    """Return a function that decodes responses of `eth_getLogs` into domain events.

    Each response has as many logs as a daemon's window.
    """
    reader, log_filter = create_reader_and_filter()
    bodies = [
        build_response(raw_logs[offset : offset + TARGET_LOGS])
        for offset in range(0, len(raw_logs), TARGET_LOGS)
    ]

    def decode() -> int:
        logs = 0
        for body in bodies:
            responses = DECODER.decode(body).result
            assert isinstance(responses, list)
            logs += len(
                reader.decode_rows(
                    validate_logs(responses, BlockRange(0, last_block), log_filter), []
                ).events
            )
        return logs

    return decode


def parse_logs(raw_logs: list[bytes], last_block: int) -> list[Log]:
    responses = DECODER.decode(build_response(raw_logs)).result
    assert isinstance(responses, list)
    return list(validate_logs(responses, BlockRange(0, last_block), create_reader_and_filter()[1]))


def prepare_event_decoding(logs: list[Log]) -> DecodeRun:
    """Return a function that decodes checked logs into domain events."""
    reader, _ = create_reader_and_filter()
    return lambda: len(reader.decode_rows(logs, []).events)


def prepare_tuple_decoding(logs: list[Log]) -> DecodeRun:
    decoders = {
        event.digest: build_log_decoder(event)
        for event in load_abi("TaskNetwork").events.values()
        if "(" not in "".join(p.abi_type for p in event.inputs)
    }

    def decode() -> int:
        for log in logs:
            decoders[log.topics[0]](log)
        return len(logs)

    return decode


def prepare_eth_abi_decoding(logs: list[dict[str, Any]]) -> DecodeRun:
    def split(event: AbiSignature) -> tuple[list[str], list[str]]:
        indexed = [p.abi_type for p in event.inputs if p.indexed]
        return indexed, [p.abi_type for p in event.inputs if not p.indexed]

    types_by_topic = {
        event.digest: split(event) for event in load_abi("TaskNetwork").events.values()
    }
    topics_and_data = [(log["topics"], log["data"]) for log in logs]

    def decode() -> int:
        for topics, data in topics_and_data:
            indexed, plain = types_by_topic[topics[0]]
            for kind, topic in zip(indexed, topics[1:], strict=True):
                abi_decode([kind], bytes.fromhex(topic[2:]))
            abi_decode(plain, bytes.fromhex(data[2:]))
        return len(topics_and_data)

    return decode


def prepare_web3_decoding(logs: list[dict[str, Any]]) -> DecodeRun:
    """Return a function that decodes each log as web3's `contract.events.X.get_logs` does."""
    abi = msgspec.json.decode(find_shipped_path("abi/TaskNetwork.json").read_bytes())["abi"]
    contract = Web3().eth.contract(Web3.to_checksum_address(NETWORK), abi=abi)
    name_by_topic = {event.digest: event.name for event in load_abi("TaskNetwork").events.values()}
    events_and_logs = [(contract.events[name_by_topic[log["topics"][0]]](), log) for log in logs]

    def decode() -> int:
        for event, log in events_and_logs:
            event.process_log(AttributeDict.recursive(log_entry_formatter(log)))
        return len(events_and_logs)

    return decode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    chain = create_chain(parser.parse_args().events)
    raw_logs = [text for block in chain.blocks for _, _, text in block.logs]
    parsed_logs = [msgspec.json.decode(text) for text in raw_logs]
    sample = list(islice(parsed_logs, 1_000, 1_000 + SAMPLE_LOGS))
    logs = parse_logs(raw_logs[: SAMPLE_LOGS * 5], chain.head)
    # The daemon also does this before its first step. It makes the other decoders faster, too.
    tune_garbage_collection()
    response_microseconds = measure_microseconds_per_log(
        prepare_response_decoding(raw_logs, chain.head)
    )
    rows = [
        ("bytes to events, checked", response_microseconds),
        ("log to event", measure_microseconds_per_log(prepare_event_decoding(logs))),
        ("log to tuple of all values", measure_microseconds_per_log(prepare_tuple_decoding(logs))),
        (
            "eth_abi, topics split manually",
            measure_microseconds_per_log(prepare_eth_abi_decoding(sample)),
        ),
        ("web3 process_log", measure_microseconds_per_log(prepare_web3_decoding(sample))),
    ]
    table = Table(title=f"Decoding ordinary traffic, {len(raw_logs):,} logs")
    for title in ("way", "µs/log", "logs/s", "relative to log to event"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for name, microseconds in rows:
        ratio = microseconds / rows[1][1]
        table.add_row(name, f"{microseconds:.2f}", f"{1e6 / microseconds:,.0f}", f"{ratio:.1f}")
    console = Console()
    console.print(table)
    verdict = "reached" if response_microseconds <= TARGET_MICROSECONDS else "MISSED"
    console.print(
        f"{response_microseconds:.2f} µs from bytes to event; "
        f"target {TARGET_MICROSECONDS} µs: {verdict}"
    )
    return 0 if response_microseconds <= TARGET_MICROSECONDS else MISSED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
