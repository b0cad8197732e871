"""An endpoint in bad weather: each request may fail independently, drawn from a seed.

Unlike the moods of `chaos`, which last, each failure is independent of the next request.
"""

from collections.abc import Callable, Mapping
from random import Random
from threading import Lock

from typing_extensions import override

from devnet.fakechain.block_json import Block
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import block_faults, transport_faults as transport
from devnet.fakechain.provider import Provider
from devnet.fakechain.requests import Http
from devnet.fakechain.tree import Tree

# The share of all requests that fails in each way.
FOUL: Mapping[str, float] = {"429": 0.10, "garbage": 0.10, "reset": 0.05, "lagging": 0.10}
_LAG_BLOCKS = 2


class Weather(Provider):
    """Serves a tree; `shares` gives the share of each failure.

    `wait_before_answer` is called before each response. `shares` may be replaced at any time. A
    429 carries `retry_after` as its Retry-After, in seconds.
    """

    def __init__(
        self,
        tree: Tree,
        wait: Callable[[], None],
        *,
        shares: Mapping[str, float] | None = None,
        retry_after: int = 1,
    ) -> None:
        super().__init__(tree)
        self._wait = wait
        self.shares = shares or {}
        self._random = Random(1)  # noqa: S311 - chance, not a secret
        self._lock = Lock()
        self._behind = Provider(tree)
        self._faults: Mapping[str, tuple[InjectedFault, ...]] = {
            "429": (transport.throttled(retry_after),),
            "garbage": (transport.web_page(), transport.truncated(), transport.empty_body()),
            "reset": (transport.reset(),),
            "lagging": (block_faults.switched(self._behind),),
        }

    def show(self, head: Block) -> None:
        """Show this block as the newest; lagging responses show an older one."""
        self.head = head
        for _ in range(_LAG_BLOCKS):
            head = head.parent or head
        self._behind.head = head

    @override
    def post(self, body: bytes) -> Http:
        self._wait()
        return super().post(body)

    @override
    def striking(self) -> tuple[InjectedFault, ...]:
        with self._lock:
            drawn = self._random.random()
            for name, share in self.shares.items():
                if drawn < share:
                    return (self._random.choice(self._faults[name]),)
                drawn -= share
        return ()
