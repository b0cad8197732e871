"""What is sent to whom: messages, and what every target can do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from oracle.domain.ids import Address
from oracle.errors import OracleError
from oracle.notify.notice_kinds import NoticeKind, text_of
from oracle.store.notice_repository import Notice


class NotDeliveredError(OracleError):
    """A target did not take a message; the sentence holds no part of its address but the host."""


@dataclass(frozen=True, slots=True)
class Message:
    """One notice as it is sent; `id` is the same however often it is."""

    id: str
    kind: str
    text: str
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NoticeChoice:
    """What a target wants: of these kinds, about these nodes; empty: whatever there is."""

    kinds: frozenset[str] = frozenset()
    nodes: frozenset[Address] = frozenset()

    def matches(self, notice: Notice) -> bool:
        """Tell whether a notice is for it; about a fork `Delivery` decides."""
        names = {notice.kind, str(notice.body.get("condition", notice.kind))}
        if self.kinds and not self.kinds & names:
            return False
        return not self.nodes or notice.node in self.nodes


class Target(Protocol):
    """Where messages go; `name` as the settings have it."""

    @property
    def name(self) -> str: ...

    @property
    def choice(self) -> NoticeChoice: ...

    def send(self, message: Message) -> None:
        """Send it once, in bounded time. Raises NotDeliveredError: it was not taken."""


def message_of(notice: Notice, undone: tuple[int, ...] = ()) -> Message:
    """Return a notice as it is sent; `undone`: those of a fork that the target was told."""
    said: dict[str, object] = dict(notice.body)
    if notice.node is not None:
        said["node"] = notice.node
    if notice.kind == NoticeKind.REORG:
        said["undone"] = list(undone)
    text = text_of(notice.kind, said)
    head = {"seq": notice.seq, "kind": notice.kind, "time": notice.time, "text": text}
    return Message(str(notice.seq), notice.kind, text, head | said)


def a_test_message(time: int) -> Message:
    """Return what `notify test` sends; it has no number."""
    text = "a test of qos-oracle: this target can be told"
    return Message("test", "test", text, {"kind": "test", "time": time, "text": text})
