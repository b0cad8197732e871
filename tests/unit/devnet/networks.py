"""A small block tree, and a client that sends hand-written JSON-RPC."""

from typing import Any, Self

import requests

from devnet.fakechain.block_json import FakeLog, Tx
from devnet.fakechain.tree import BlockTree

SPEAKER = "0x" + "5a" * 20
OTHER = "0x" + "07" * 20
FIRST = "0x" + "11" * 32
SECOND = "0x" + "22" * 32
SENDER = "0x" + "5e" * 20


def make_log(word: int = 0, address: str = SPEAKER, topic: str = FIRST) -> FakeLog:
    return FakeLog(address, (topic, f"0x{word:064x}"), f"0x{word:064x}")


def grown(blocks: int = 5) -> BlockTree:
    """Return a tree whose blocks each have two logs in one transaction;
    the data is the block number.
    """
    tree = BlockTree()
    for number in range(1, blocks + 1):
        logs = (make_log(number), make_log(number, topic=SECOND))
        tree.mine([Tx(SENDER, SPEAKER, "0x12345678", logs=logs)])
    return tree


class Caller:
    """A keep-alive connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = requests.Session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_left: object) -> None:
        self.session.close()

    def whole(self, method: str, *params: object) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.session.post(self.url, json=body, timeout=120).json()

    def __call__(self, method: str, *params: object) -> Any:
        answer = self.whole(method, *params)
        return answer["error"] if "error" in answer else answer["result"]

    def batch(self, *calls: tuple[Any, ...]) -> Any:
        body = [
            {"jsonrpc": "2.0", "id": place, "method": method, "params": params}
            for place, (method, *params) in enumerate(calls)
        ]
        return self.session.post(self.url, json=body, timeout=120).json()
