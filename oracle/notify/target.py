"""Messages, and the interface of notification targets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from oracle.domain.ids import Address
from oracle.errors import OracleError
from oracle.notify.notice_kinds import NoticeKind, format_notice_text
from oracle.store.notice_repository import Notice


class NotDeliveredError(OracleError):
    """A target did not accept a message; the text names only the target's host."""


@dataclass(frozen=True, slots=True)
class Message:
    """A notice in the form sent to a target; repeated deliveries have the same `id`."""

    id: str
    kind: str
    text: str
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NoticeFilter:
    """The kinds and nodes that a target gets notices about; an empty set matches everything.

    If the filter contains nodes, a notice that concerns no node matches only if its kind is in
    `network_kinds`.
    """

    kinds: frozenset[str] = frozenset()
    nodes: frozenset[Address] = frozenset()
    network_kinds: frozenset[str] = frozenset()

    def matches(self, notice: Notice) -> bool:
        """Return whether a notice matches this filter.

        `TargetDelivery` also delivers the notice of a reorg that retracted matching notices.
        """
        kind_and_condition = {notice.kind, str(notice.body.get("condition", notice.kind))}
        if self.kinds and not self.kinds & kind_and_condition:
            return False
        if notice.node is None and notice.kind in self.network_kinds:
            return True
        return not self.nodes or notice.node in self.nodes


class Target(Protocol):
    """A destination of messages; `name` is its name in the settings."""

    @property
    def name(self) -> str: ...

    @property
    def notice_filter(self) -> NoticeFilter: ...

    def send(self, message: Message) -> None:
        """Send a message once, within a limited time; raise NotDeliveredError on failure."""


def build_notice_message(notice: Notice, retracted_seqs: tuple[int, ...] = ()) -> Message:
    """Build the message for a notice.

    `retracted_seqs` are the sequence numbers of the notices that a reorg retracted and that the
    target had received; the message lists them as `undone`.
    """
    notice_body: dict[str, object] = dict(notice.body)
    if notice.node is not None:
        notice_body["node"] = notice.node
    if notice.kind == NoticeKind.REORG:
        notice_body["undone"] = list(retracted_seqs)
    text = format_notice_text(notice.kind, notice_body)
    message_head = {"seq": notice.seq, "kind": notice.kind, "time": notice.time, "text": text}
    return Message(str(notice.seq), notice.kind, text, message_head | notice_body)


def build_test_message(time: int) -> Message:
    """Build the message sent by `notify test`, which has no sequence number."""
    text = "test message of qos-oracle: this target receives notifications"
    return Message("test", "test", text, {"kind": "test", "time": time, "text": text})
