"""An endpoint on which requests fail at random.

The failures are independent of each other. The failures are drawn from a seed. In contrast, a mood
of `chaos` lasts for several requests.
"""

from collections.abc import Callable, Mapping
from random import Random
from threading import Lock

from typing_extensions import override

from devnet.fakechain.block_json import Block
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import block_faults, transport_faults as transport
from devnet.fakechain.provider import Provider
from devnet.fakechain.requests import HttpResponse
from devnet.fakechain.tree import BlockTree

# Share of requests that fail, for each kind of failure.
BAD_WEATHER_SHARES: Mapping[str, float] = {
    "429": 0.10,
    "garbage": 0.10,
    "reset": 0.05,
    "lagging": 0.10,
}
_LAG_BLOCKS = 2


class WeatherEndpoint(Provider):
    """Serves a tree of blocks with random failures.

    `shares` maps a kind of failure to its share of the requests. `wait_before_answer` is called
    before each response. `shares` may be replaced at any time. A response 429 has `retry_after`
    seconds as its Retry-After.
    """

    def __init__(
        self,
        tree: BlockTree,
        wait_before_answer: Callable[[], None],
        *,
        shares: Mapping[str, float] | None = None,
        retry_after: int = 1,
    ) -> None:
        super().__init__(tree)
        self._wait_before_answer = wait_before_answer
        self.shares = shares or {}
        self._random = Random(1)  # noqa: S311 - chance, not a secret
        self._lock = Lock()
        self._lagging_provider = Provider(tree)
        self._faults_by_name: Mapping[str, tuple[InjectedFault, ...]] = {
            "429": (transport.build_429_fault(retry_after),),
            "garbage": (
                transport.build_html_fault(),
                transport.build_truncated_body_fault(),
                transport.build_empty_body_fault(),
            ),
            "reset": (transport.build_reset_connection_fault(),),
            "lagging": (block_faults.build_forwarding_fault(self._lagging_provider),),
        }

    def set_head(self, head: Block) -> None:
        """Set the newest block.

        Responses that lag behind are served from an older block.
        """
        self.head = head
        for _ in range(_LAG_BLOCKS):
            head = head.parent or head
        self._lagging_provider.head = head

    @override
    def handle_post(self, body: bytes) -> HttpResponse:
        self._wait_before_answer()
        return super().handle_post(body)

    @override
    def select_faults(self) -> tuple[InjectedFault, ...]:
        with self._lock:
            random_value = self._random.random()
            for name, share in self.shares.items():
                if random_value < share:
                    return (self._random.choice(self._faults_by_name[name]),)
                random_value -= share
        return ()
