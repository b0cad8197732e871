"""The sections `[[notify]]` and `[metrics]`: who is told what (docs/how-to/notifications.md)."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from oracle.daemon.config.redaction import SecretText
from oracle.daemon.config.sections import ContractAddress, Section
from oracle.notify.notice_kinds import CHOICES


def _known_kind(name: str) -> str:
    if name not in CHOICES:
        raise ValueError(f"expected one of {', '.join(sorted(CHOICES))}")
    return name


class NotifySection(Section):
    # What it is called in commands, metrics and the log; keeps its place when the address changes.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    # `https://…`: a webhook; else an address of Apprise's (`mailto://…`, `slack://…`), which needs
    # the extra `notify`.
    url: SecretText = Field(min_length=1)
    # Of a webhook: a file (mode 600) with the secret, 16 characters at least, that signs messages.
    secret_file: Path | None = None
    # What it is told of; none: of everything.
    # Kinds of notices, and conditions of the daemon's health (docs/explanation/health.md).
    kinds: tuple[Annotated[str, AfterValidator(_known_kind)], ...] = ()
    # How often a heartbeat is sent, for a dead man's switch; none: never.
    heartbeat_seconds: float | None = Field(default=None, ge=1)
    # The nodes that it is told of; none: of all, and of reports and halts as well.
    nodes: tuple[ContractAddress, ...] = Field(default=(), max_length=1000)
    # Of a webhook: how long an answer may take.
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    # Of a webhook: let it resolve to an address that is not public.
    allow_private: bool = False

    @property
    def is_webhook(self) -> bool:
        """Tell whether we send it ourselves."""
        return self.url.startswith(("http://", "https://"))


class MetricsSection(Section):
    # A series of QoS, reliability and exclusion for each member.
    nodes: bool = False
    # For so many members at most, those that are scored most: each is three series.
    max_nodes: int = Field(default=1000, ge=1, le=20_000)


def faults_in_notify(targets: Sequence[NotifySection]) -> list[str]:
    """Return what cannot stand together in `[[notify]]`, in one line each."""
    faults = [
        f"notify.name: {name} names {times} targets"
        for name, times in Counter(one.name for one in targets).items()
        if times > 1
    ]
    for one in targets:
        if one.is_webhook and one.secret_file is None:
            faults.append(f"notify.secret_file: is missing, and {one.name} is a webhook")
        if not one.is_webhook and one.secret_file is not None:
            faults.append(f"notify.secret_file: {one.name} is no webhook")
    return faults
