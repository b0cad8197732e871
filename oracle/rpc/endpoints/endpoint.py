"""One endpoint: the client that asks it, and everything that is remembered of it.

Indexer, transaction manager and queries share it, so that none asks in vain what another one has
found out already.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from typing_extensions import override

from oracle.domain.blocks import BlockRef
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.capabilities import DAY, HOUR, TAGS, Capabilities, CapabilityStore
from oracle.rpc.endpoints.checkpoints import Checkpoint, fault_in_chain
from oracle.rpc.endpoints.endpoint_status import EndpointStatus
from oracle.rpc.endpoints.health import Health
from oracle.rpc.endpoints.learned_limits import LearnedLimits
from oracle.rpc.endpoints.providers import provider_of
from oracle.rpc.headers import checked, header_answers
from oracle.rpc.responses import FullHeaderResponse
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# A turn looks many times how far an endpoint has come; one that stands still, or another node
# behind its address, is seen in the next one.
_TURN_SECONDS = 1.0
# How long each value is believed, in seconds: it must outlive the next hourly probe.
_LASTING = 2 * HOUR


class Endpoint:
    """May be used by several threads at once; `clock` counts seconds."""

    def __init__(
        self,
        client: JsonRpcClient,
        clock: Callable[[], float] = time.monotonic,
        provider: str | None = None,
    ) -> None:
        self.client = client
        # Endpoints of one provider are one witness.
        self.provider = provider_of(client.name) if provider is None else provider
        self.health = Health(client.name, clock)
        self.status = EndpointStatus()
        # What the last probe found; None before the first.
        self.capabilities: Capabilities | None = None
        # What is learned while windows are read by it.
        self.limits = LearnedLimits()
        # The highest block that it has shown.
        self.highest_block = -1
        # Its newest block when its heads were last looked at; None once a window was read by it.
        self.head: BlockRef | None = None
        # Tags of blocks that it knows besides `latest`, until it shows that it does not.
        self.tags: tuple[str, ...] = TAGS
        # The highest block that it has called finalized.
        self.finalized: BlockRef | None = None
        # Whether it was seen to give the receipts of a whole block.
        self.gives_block_receipts = False
        # The chain that it said it serves, until it falls silent.
        self.chain_id: int | None = None
        # The block that it was asked about last, where it was there, and when.
        self._reached: tuple[int, float] | None = None
        # Its newest block with all that the header says, as its last look has shown it.
        self._newest_header: FullHeaderResponse | None = None
        self._clock = clock
        client.observer = self.health

    @override
    def __repr__(self) -> str:
        return f"Endpoint({self.name})"

    @property
    def name(self) -> str:
        """Scheme, host and port; a pool makes those of one host different."""
        return self.client.name

    def call_it(self, name: str) -> None:
        """Use this name from now on, in texts, in metrics and in the database."""
        self.client.name = self.health.name = name

    def close(self) -> None:
        """Let the connections go; what is under way ends by itself."""
        self.client.close()

    def has(self, method: str) -> bool:
        """Tell whether the endpoint has the method; True until it has said that it does not."""
        return self.health.has(method)

    def refusal(self) -> RpcError | None:
        """Return why nothing is asked of it now; None: it may be."""
        if self.status.quarantined is not None:
            return RpcError(self.name, ErrorKind.QUARANTINED, self.status.quarantined)
        wait = self.health.bucket.wait()
        if wait > 0:
            words = f"asked us to wait, {wait:.1f} s more"
            return RpcError(self.name, ErrorKind.THROTTLED, words, retry_after=wait)
        return None

    def is_usable(self) -> bool:
        """Tell whether it would be given work: neither shut out nor failing now."""
        return self.status.quarantined is None and self.status.failures == 0

    def fault_in_chain(
        self, chain_id: int, checkpoints: Sequence[Checkpoint], *, seconds: float | None
    ) -> str | None:
        """Return why it is not of our chain; see `checkpoints`. Raises RpcError."""
        return fault_in_chain(self.client, chain_id, checkpoints, seconds=seconds)

    def header(self, number_or_tag: int | str) -> BlockRef | None:
        """Return a block; see `headers`."""
        return self.headers([number_or_tag])[0]

    def headers(self, wanted: Iterable[int | str]) -> list[BlockRef | None]:
        """Return blocks by height or tag; what the newest one's header says is remembered.

        Raises:
            RpcError: no usable answer, or one for another height.
        """
        asked = list(wanted)
        answers = header_answers(self.client, asked)
        if "latest" in asked:
            self._newest_header = answers[asked.index("latest")]
        return checked(self.client, asked, answers)

    def take_newest_header(self) -> FullHeaderResponse | None:
        """Return what the last look at the newest block has shown, once; None: not looked."""
        taken, self._newest_header = self._newest_header, None
        return taken

    def forget_newest_header(self, unless: str) -> None:
        """Forget what the last look has shown, where it was another block than of this hash."""
        seen = self._newest_header
        if seen is not None and seen.hash.lower() != unless:
            self._newest_header = None

    def is_known_to_reach(self, block: int) -> bool:
        """Tell whether it was there a moment ago when it was asked about this very block."""
        if self._reached is None or self._reached[0] != block:
            return False
        return self._clock() - self._reached[1] < _TURN_SECONDS

    def reaches(self, block: int) -> None:
        """Note that this block is there now."""
        self._reached = (block, self._clock())

    def fell_silent(self) -> None:
        """Ask anew which chain it serves, and how far: there may be another node behind it."""
        self.chain_id = self._reached = None

    def remember(self, keeper: CapabilityStore) -> None:
        """Hand over what the last probe of this endpoint found, and its batches."""
        found = self.capabilities
        if found is None:
            return
        keeper.keep(self.name, "tags", ",".join(found.tags), _LASTING)
        keeper.keep(self.name, "logs_by_hash", str(int(found.has_logs_by_hash)), _LASTING)
        keeper.keep(self.name, "block_receipts", str(int(found.has_block_receipts)), _LASTING)
        keeper.keep(self.name, "batch", str(self.client.batch_limit), DAY)
        if found.oldest_logs is not None:
            keeper.keep(self.name, "oldest_logs", str(found.oldest_logs), DAY)

    def recall(self, keeper: CapabilityStore) -> None:
        """Take up what was known of this endpoint; what is not in our form is passed over."""
        kept = keeper.recall(self.name)
        if kept.get("batch", "").isdecimal():
            self.client.learn_batch(int(kept["batch"]))
        if not {"tags", "logs_by_hash", "block_receipts"} <= kept.keys():
            return
        oldest = kept.get("oldest_logs", "")
        self.tags = tuple(tag for tag in kept["tags"].split(",") if tag)
        self.capabilities = Capabilities(
            tags=self.tags,
            has_logs_by_hash=kept["logs_by_hash"] == "1",
            has_block_receipts=kept["block_receipts"] == "1",
            batch=self.client.batch_limit,
            oldest_logs=int(oldest) if oldest.isdecimal() else None,
        )
