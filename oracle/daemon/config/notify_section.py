"""The sections `[[notify]]` and `[metrics]`.

See docs/how-to/notifications.md and docs/how-to/monitor.md.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from oracle.daemon.config.redaction import SecretText
from oracle.daemon.config.sections import ContractAddress, Section
from oracle.notify.notice_kinds import SELECTABLE_KINDS


def _check_notice_kind(name: str) -> str:
    if name not in SELECTABLE_KINDS:
        raise ValueError(f"expected one of {', '.join(sorted(SELECTABLE_KINDS))}")
    return name


class NotifySection(Section):
    # The target's name in commands, metrics and the log; delivery resumes by name when the URL
    # changes.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    # `https://…`: a webhook; else a URL of Apprise (`mailto://…`, `slack://…`), which needs the
    # extra `notify`.
    url: SecretText = Field(min_length=1)
    # For webhooks: a file (mode 600) with the secret, at least 16 characters, that signs messages.
    secret_file: Path | None = None
    # The notices to deliver; left out: all. Kinds of notices, and conditions of the daemon's
    # health (docs/explanation/health.md).
    kinds: tuple[Annotated[str, AfterValidator(_check_notice_kind)], ...] = ()
    # Seconds between heartbeats, for a dead man's switch; left out: none.
    heartbeat_seconds: float | None = Field(default=None, ge=1)
    # The nodes whose notices are delivered; left out: all nodes, and also reports and halts.
    nodes: tuple[ContractAddress, ...] = Field(default=(), max_length=1000)
    # For webhooks: timeout of a request, in seconds.
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    # For webhooks: allow addresses that are not public.
    allow_private: bool = False

    @property
    def is_webhook(self) -> bool:
        """Whether the daemon sends the notice itself, without Apprise."""
        return self.url.startswith(("http://", "https://"))


class MetricsSection(Section):
    # Whether to export QoS, reliability and exclusion of each member.
    nodes: bool = False
    # The maximum number of members, those with the most scores first; each has three series.
    max_nodes: int = Field(default=1000, ge=1, le=20_000)


def find_notify_faults(targets: Sequence[NotifySection]) -> list[str]:
    """Return the conflicts between settings of `[[notify]]`, one line each."""
    faults = [
        f"notify.name: {name} is the name of {target_count} targets; names must be unique"
        for name, target_count in Counter(target.name for target in targets).items()
        if target_count > 1
    ]
    for target in targets:
        if target.is_webhook and target.secret_file is None:
            faults.append(f"notify.secret_file: missing; required for the webhook {target.name}")
        if not target.is_webhook and target.secret_file is not None:
            faults.append(
                f"notify.secret_file: only for webhooks, and {target.name} is none; remove it"
            )
    return faults
