"""A table of RPC providers' error messages and their meanings.

Providers change their messages without notice, so only the speed of a reaction may depend on this
table. If no row matches a message, its kind is `UNKNOWN`, and another endpoint is tried, then a
smaller range. The tests simulate every row, both with a single endpoint and with the last endpoint
that responds. See docs/reference/rpc-requirements.md#errors-when-reading.
"""

import re
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from oracle.rpc.error_kinds import ErrorKind


class RefusedFeature(StrEnum):
    """A feature that a provider can refuse.

    Tests use it to simulate the refusal.
    """

    RATE = "too many requests"
    BLOCKS = "too many blocks in one range"
    RESULTS = "too many results in one answer"
    TIME = "a query that takes too long"
    HEAD = "a block that is not there yet"
    HISTORY = "a block that was pruned"
    METHOD = "a method"
    BATCH = "several requests in one batch"


class ProviderMessage(NamedTuple):
    """An error message of a provider.

    The first matching row determines the kind of an error. `pattern` is a regular expression. A
    row with an empty pattern matches by `code` alone, and only if no pattern matches. `example`
    may contain {limit}, {first}, {last}, {half}, {hexes}, {asked} and {method}.
    """

    kind: ErrorKind
    refused_feature: RefusedFeature
    pattern: str
    code: int
    provider: str
    example: str


_RATE = (ErrorKind.THROTTLED, RefusedFeature.RATE)
_BLOCKS = (ErrorKind.TOO_LARGE, RefusedFeature.BLOCKS)
_RESULTS = (ErrorKind.TOO_LARGE, RefusedFeature.RESULTS)
_TIME = (ErrorKind.SLOW, RefusedFeature.TIME)
_HEAD = (ErrorKind.NOT_THERE, RefusedFeature.HEAD)
_HISTORY = (ErrorKind.PRUNED, RefusedFeature.HISTORY)
_METHOD = (ErrorKind.UNSUPPORTED, RefusedFeature.METHOD)
_BATCH = (ErrorKind.UNSUPPORTED, RefusedFeature.BATCH)

_ROWS: tuple[tuple[tuple[ErrorKind, RefusedFeature], str, int, str, str], ...] = (
    # --- rate limits ---
    (
        _RATE,
        r"rate.?limit",
        -32005,
        "Infura",
        "daily request count exceeded, request rate limited",
    ),
    (_RATE, r"too many requests", -32090, "Ankr", "Too many requests, reason: call rate limit"),
    (_RATE, r"request limit", -32007, "QuickNode", "50/second request limit reached"),
    (_RATE, r"throttl", -32016, "1RPC", "request throttled, try again later"),
    (_RATE, r"quota|credits", -32012, "GetBlock", "credits quota exceeded"),
    (_RATE, r"throughput", 42903, "Chainstack", "Your app has exceeded its throughput limit"),
    (
        _RATE,
        r"\bcapacity|compute units|\bCUs?\b",
        429,
        "Alchemy",
        "Your app has exceeded its compute units per second capacity",
    ),
    (_RATE, r"per (?:second|minute|day)", -32029, "Infura", "limit of 25 requests per second"),
    (_RATE, r"requests limited to", -32000, "Blast", "requests limited to {limit} at a time"),
    (_RATE, r"too much load", -32603, "BlockPI", "the node is under too much load"),
    # --- batches ---
    (
        _BATCH,
        r"unsupported methods? .*in batch",
        -32600,
        "Alchemy",
        "Unsupported methods [{method}] in batch call. See available methods at docs.example",
    ),
    (
        _BATCH,
        r"not (?:permitted|allowed|supported).* batch",
        -32007,
        "Hedera",
        "Method {method} is not permitted as part of batch requests",
    ),
    (
        _BATCH,
        r"unsupported batch|batch(?:es|ed|ing)?\b.*(?:disabled|denied|not \w+ed|not avail)",
        -32000,
        "Polygon CDK",
        "batch requests are disabled",
    ),
    # --- block ranges, then results: messages with no other meaning ---
    (
        _BLOCKS,
        r"limited to (?:a )?[\d,]+",
        -32614,
        "QuickNode",
        "eth_getLogs is limited to a {limit} range",
    ),
    (
        _BLOCKS,
        r"limited to (?:a )?[\d,]+",
        -32005,
        "BlockPI",
        "eth_getLogs is limited to {limit} block range",
    ),
    (
        _BLOCKS,
        r"limited to 0 ?- ?[\d,]+",
        -32602,
        "BlockPI",
        "eth_getLogs is limited to 0 - {limit} blocks range",
    ),
    (
        _BLOCKS,
        r"up to a [\d,]+k? block range",
        -32600,
        "Alchemy",
        "You can make eth_getLogs requests with up to a {limit} block range.",
    ),
    (_BLOCKS, r"max(?:imum)? (?:block )?range", -32602, "Cloudflare", "Max range: {limit}"),
    (
        _BLOCKS,
        r"max(?:imum)? (?:block )?range",
        -32000,
        "BNB Chain",
        "exceed maximum block range: {limit}",
    ),
    (
        _BLOCKS,
        r"max(?:imum)? (?:block )?range",
        -32602,
        "Hyperliquid",
        "query exceeds max block range {limit}",
    ),
    (
        _BLOCKS,
        r"maximum (?:allowed|is set to)",
        -32000,
        "thirdweb",
        "Maximum allowed number of requested blocks is {limit}",
    ),
    (
        _BLOCKS,
        r"maximum (?:allowed|is set to)",
        -32000,
        "Avalanche",
        "requested too many blocks from {first} to {last}, maximum is set to {limit}",
    ),
    (
        _BLOCKS,
        r"at most [\d,]+ blocks",
        -32602,
        "Coinbase",
        "please limit the query to at most {limit} blocks",
    ),
    (
        _BLOCKS,
        r"range allowed for your plan",
        -32600,
        "Blast",
        "block range exceeds the range allowed for your plan ({asked} > {limit})",
    ),
    (
        _BLOCKS,
        r"blocks distance",
        -32000,
        "Ankr",
        "exceed maximum [from, to] blocks distance: {limit}",
    ),
    (
        _BLOCKS,
        r"over [\d,]+ blocks",
        -32602,
        "dRPC",
        "ranges over {limit} blocks are not supported on freetier",
    ),
    (_BLOCKS, r"too many blocks", -32000, "Nethermind", "too many blocks"),
    (
        _BLOCKS,
        r"range (?:is )?too (?:large|wide|big)",
        -32000,
        "Merkle",
        "eth_getLogs range is too large, max is {limit} blocks",
    ),
    (
        _BLOCKS,
        r"range (?:is )?too (?:large|wide|big)",
        -32000,
        "Moonbeam",
        "block range is too wide (maximum {limit})",
    ),
    (
        _BLOCKS,
        r"range (?:is )?too (?:large|wide|big)",
        -32600,
        "Ankr",
        "block range is too wide",
    ),
    (_BLOCKS, r"range limit exceeded", -32602, "Chainstack", "Block range limit exceeded."),
    (
        _BLOCKS,
        r"range [\d,]+ exceeds limit of",
        -32602,
        "Infura",
        "range {asked} exceeds limit of {limit}",
    ),
    (_BLOCKS, r"range exceeds", -32000, "Somnia", "block range exceeds {limit}"),
    (
        _BLOCKS,
        r"range greater than",
        -32000,
        "Swell",
        "block range greater than {limit} max",
    ),
    (
        _RESULTS,
        r"more than [\d,]+ (?:results|logs)",
        -32005,
        "Infura",
        "query returned more than {limit} results",
    ),
    (_RESULTS, r"too many (?:results|logs)", -32005, "thirdweb", "too many logs"),
    (
        _RESULTS,
        r"exceeds? (?:max )?results|max (?:results|logs)",
        -32602,
        "Reth",
        "query exceeds max results {limit}, retry with the range {first}-{half}",
    ),
    (
        _RESULTS,
        r"limit of [\d,]+",
        -32000,
        "Arbitrum",
        "logs matched by query exceeds limit of {limit}",
    ),
    (
        _RESULTS,
        r"response (?:size|is too big|too large|is too large)",
        -32602,
        "Alchemy",
        "Log response size exceeded. this block range should work: [{hexes}]",
    ),
    (
        _RESULTS,
        r"response (?:size|is too big|too large|is too large)",
        -32008,
        "jsonrpsee",
        "Response is too big",
    ),
    (
        _RESULTS,
        r"response (?:size|is too big|too large|is too large)",
        -32020,
        "OP proxyd",
        "backend response too large",
    ),
    (
        _RESULTS,
        r"response (?:size|is too big|too large|is too large)",
        -32000,
        "1RPC",
        "response size should not greater than 10000000 bytes",
    ),
    (
        _RESULTS,
        r"retry with the range",
        -32000,
        "LlamaRPC",
        "too much, retry with the range {first}-{half}",
    ),
    # --- timeouts ---
    (
        _TIME,
        r"tim(?:ed?|e) ?-?out",
        -32000,
        "Alchemy",
        "Query timeout exceeded. Consider reducing your block range.",
    ),
    (_TIME, r"tim(?:ed?|e) ?-?out", -32603, "Infura", "query timeout of 10 seconds exceeded"),
    (_TIME, r"tim(?:ed?|e) ?-?out", -32002, "Geth", "request timed out"),
    (
        _TIME,
        r"tim(?:ed?|e) ?-?out",
        -32603,
        "PostgreSQL behind a proxy",
        "canceling statement due to statement timeout",
    ),
    (_TIME, r"aborted", -32000, "Geth", "execution aborted (timeout = 5s)"),
    (_TIME, r"took too long", -32000, "dRPC", "the query took too long"),
    (_TIME, r"deadline exceeded", -32000, "Erigon", "context deadline exceeded"),
    # --- blocks that do not exist yet ---
    (
        _HEAD,
        r"(?:block|height) is out of range|outofrange",
        -32602,
        "Moonbeam",
        "BlockOutOfRangeError: block height is {last} but requested was {first}",
    ),
    (_HEAD, r"(?:block|height) is out of range", -32000, "Avalanche", "block is out of range"),
    (_HEAD, r"beyond .*head", -32000, "Reth", "block range extends beyond current head block"),
    (_HEAD, r"unfinalized", -32000, "Avalanche", "cannot query unfinalized data"),
    (_HEAD, r"header not found", -32000, "Geth", "header not found"),
    (_HEAD, r"unknown block", -32000, "Erigon", "unknown block"),
    (
        _HEAD,
        r"block .*(?:not found|cannot be found)",
        -32602,
        "Hardhat",
        "Received invalid block tag {first}. blockHash cannot be found",
    ),
    (
        _HEAD,
        r"after last accepted block",
        -32000,
        "Avalanche",
        "requested to block {last} after last accepted block {first}",
    ),
    # --- pruned history ---
    (_HISTORY, r"pruned", 4444, "Geth", "pruned history unavailable"),
    (
        _HISTORY,
        r"history (?:is )?(?:unavailable|not available)",
        -32000,
        "Nethermind",
        "historical state is not available: history unavailable",
    ),
    (
        _HISTORY,
        r"historical .*(?:un|not )avail",
        -32000,
        "Besu",
        "historical blocks are not available",
    ),
    (_HISTORY, r"missing trie node", -32000, "Geth", "missing trie node d3f4 (path )"),
    (
        _HISTORY,
        r"due to pruning",
        -32000,
        "Erigon",
        "old data not available due to pruning",
    ),
    (_HISTORY, r"state .*discarded", -32000, "Substrate", "state already discarded for {first}"),
    # --- unsupported methods ---
    (
        _METHOD,
        r"unsupported (?:rpc )?method",
        -32600,
        "Alchemy",
        "Unsupported method: {method}. See available methods at docs.example",
    ),
    (
        _METHOD,
        r"method .*not (?:found|supported|available|allowed|enabled|implemented|whitelisted)",
        -32004,
        "Hardhat",
        "Method {method} is not supported",
    ),
    (
        _METHOD,
        r"method .*not (?:found|supported|available|allowed|enabled|implemented|whitelisted)",
        -32601,
        "dRPC",
        "rpc method is not whitelisted: {method}",
    ),
    (
        _METHOD,
        r"does not exist",
        -32601,
        "Geth",
        "the method {method} does not exist/is not available",
    ),
    (_METHOD, r"is not available", -32000, "QuickNode", "{method} is not available on your plan"),
    (
        _METHOD,
        r"not included in your current plan",
        -32600,
        "Chainstack",
        "{method} is not included in your current plan",
    ),
    (_METHOD, r"method .*disabled", -32601, "Erigon", "the method {method} is disabled"),
    (_METHOD, r"(?:unknown|no such) method", -32601, "OpenEthereum", "unknown method {method}"),
    # --- ambiguous messages ---
    (
        _BLOCKS,
        "range",
        -32000,
        "Scroll",
        "block range is bigger than maxBlockRange",
    ),
    (
        _RESULTS,
        r"(?:response|result|query).*(?:size|large|big)",
        -32000,
        "Harmony",
        "query must be smaller than size {limit}",
    ),
    (_BLOCKS, r"max(?:imum)? blocks", -32000, "zkSync", "max blocks: {limit}"),
    # --- codes, for messages that match no pattern ---
    (_RATE, "", 429, "HTTP in JSON", "slow down"),
    (_RATE, "", 42903, "Chainstack", "slow down"),
    (_RATE, "", -32007, "QuickNode", ""),
    (_RATE, "", -32012, "GetBlock", ""),
    (_RATE, "", -32029, "Infura", ""),
    (_RATE, "", -32090, "Ankr", ""),
    (_HISTORY, "", 4444, "EIP-4444", ""),
    (_HEAD, "", -32001, "EIP-1474", "Resource missing"),
    (_HEAD, "", -32014, "eth_getLogs of a lagging node", "missing data"),
    (_TIME, "", -32002, "EIP-1474", ""),
    (_METHOD, "", -32004, "EIP-1474", ""),
    (_METHOD, "", -32601, "JSON-RPC 2.0", ""),
    # -32005 may mean a rate limit or a size limit; without a message, assume a size limit.
    (_RESULTS, "", -32005, "EIP-1474", ""),
)
DIALECTS = tuple(
    ProviderMessage(*kind_and_feature, pattern, code, provider, example)
    for kind_and_feature, pattern, code, provider, example in _ROWS
)

_KIND_BY_CODE = {row.code: row.kind for row in DIALECTS if not row.pattern}
_RANGE_LIMIT = re.compile(
    r"(?:limited to (?:a |0 ?- ?)?|up to (?:a )?|max(?:imum)? (?:block )?range[^\d]{0,20}"
    r"|at most |allowed[^\d]{0,30} is |is set to:? ?|blocks distance: |over |max(?: is)?:? "
    r"|\(maximum |range exceeds |range greater than |range [\d,]{1,19} exceeds limit of "
    r"|max(?:imum)? blocks:? |for your plan \(\d+ > )([\d,]{0,18}\d)(k?)\b(?! ?(?:results|logs))",
    re.IGNORECASE,
)
_SUGGESTED_RANGE = re.compile(
    r"(?:retry with the range |range[^\[\d]{0,30}\[)"
    r"(0x[\da-f]{1,16}|\d{1,19})\s*[-,]\s*(0x[\da-f]{1,16}|\d{1,19})",
    re.IGNORECASE,
)
_THROTTLED_PAGE = re.compile(r"too many requests|rate.?limit|throttl", re.IGNORECASE)


def classify_error(code: int, message: str) -> ErrorKind:
    """Return the kind of a JSON-RPC error, from its message or otherwise its code."""
    provider_message = _find_provider_message(message)
    return (
        _KIND_BY_CODE.get(code, ErrorKind.UNKNOWN)
        if provider_message is None
        else provider_message.kind
    )


def is_batch_refusal(message: str) -> bool:
    """Return whether a message refuses all batches, whatever they contain."""
    provider_message = _find_provider_message(message)
    return (
        provider_message is not None and provider_message.refused_feature is RefusedFeature.BATCH
    )


def _find_provider_message(message: str) -> ProviderMessage | None:
    return next(
        (row for row, pattern in _get_compiled_patterns() if pattern.search(message)), None
    )


@cache
def _get_compiled_patterns() -> tuple[tuple[ProviderMessage, re.Pattern[str]], ...]:
    """Return the rows with their patterns, which are compiled at first use."""
    return tuple((row, re.compile(row.pattern, re.IGNORECASE)) for row in DIALECTS if row.pattern)


def parse_max_blocks(message: str) -> int | None:
    """Return the maximum number of blocks stated in a message, or None."""
    match = _RANGE_LIMIT.search(message)
    if match is None:
        return None
    return int(match[1].replace(",", "")) * (1_000 if match[2] else 1) or None


def parse_suggested_range(message: str) -> tuple[int, int] | None:
    """Return the block range that a message suggests, unchecked.

    The result is None if the message suggests no range.
    """
    match = _SUGGESTED_RANGE.search(message)
    return None if match is None else (_parse_height(match[1]), _parse_height(match[2]))


def _parse_height(height_text: str) -> int:
    return int(height_text, 16) if height_text[:2] in {"0x", "0X"} else int(height_text)


def is_rate_limit_page(body: bytes) -> bool:
    """Return whether a body that is not JSON-RPC reports a rate limit."""
    return _THROTTLED_PAGE.search(body[:2_000].decode("utf-8", "replace")) is not None
