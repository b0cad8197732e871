"""The state that the phases of a daemon process share."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from oracle.daemon.config.loader import Config
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.stopping import StopSignal
from oracle.quorum.board import Board


class SendPermissions(NamedTuple):
    """The kinds of transactions that this process may send."""

    reports: bool
    starts: bool


@dataclass(frozen=True, slots=True)
class DaemonProcess:
    """The settings, the state and the stop signal of one daemon process.

    `exit_stack` closes what the phases opened. `board` publishes the statements that this process
    signed to the other reporters.
    """

    config: Config
    permissions: SendPermissions
    stop: StopSignal
    exit_stack: ExitStack
    health: DaemonHealth = field(default_factory=lambda: DaemonHealth(JobLiveness(time.monotonic)))
    board: Board = field(default_factory=Board)
