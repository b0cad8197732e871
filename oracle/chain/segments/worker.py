"""A worker: a child process that reads orders from its standard input and answers on its output.

It ends when its input does, so that none outlives the process it works for. Frames: see `frames`.
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
    """Work until nobody orders any more."""
    # Ctrl-C is for who leads: it closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever is printed must not get between the frames.
    os.dup2(2, 1)
    # What went wrong is told by the writer, which reads the range again.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        work(sys.stdin.buffer, answers)
    except BrokenPipeError:
        # Who ordered is gone.
        os._exit(0)


def work(orders: BinaryIO, answers: BinaryIO) -> None:
    """Answer each order; the first frame says what all of them share.

    Raises:
        InputError: the plan is not to be read as here.
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
