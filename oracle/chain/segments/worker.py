"""The worker: a child process that reads orders from stdin and writes answers to stdout.

The process ends when its input is closed, so that it never outlives its parent. Frames: see
`frames`.
"""

import gc
import os
import signal
import sys
from typing import BinaryIO

import structlog

from oracle.chain.segments.frames import (
    MOST_FRAME,
    Opening,
    opening_of,
    order_of,
    read_frame,
    write_frame,
)
from oracle.chain.segments.preparing import Preparer

READY = b"ready"


def main() -> None:
    """Process orders until the input is closed."""
    # Ctrl-C is handled by the parent, which closes the input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # Printed text must not mix with the frames.
    os.dup2(2, 1)
    # Errors are logged by the writer, which reads the range again.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        work(sys.stdin.buffer, answers)
    except BrokenPipeError:
        # The parent process is gone.
        os._exit(0)


def work(orders: BinaryIO, answers: BinaryIO) -> None:
    """Answer each order; the first frame contains the plan and the endpoints.

    Raises:
        InputError: this version cannot read the plan.
    """
    first = read_frame(orders, MOST_FRAME)
    if first is None:
        return
    opening: Opening = opening_of(first)
    preparer = Preparer(opening.plan, opening.urls)
    gc.collect()
    gc.freeze()
    write_frame(answers, READY)
    while (given := read_frame(orders, MOST_FRAME)) is not None:
        write_frame(answers, preparer.prepare(order_of(given)))
    preparer.close()


if __name__ == "__main__":
    main()
