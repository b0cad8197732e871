"""The worker: a child process that reads requests from stdin and writes answers to stdout.

The process ends when its input is closed, so that it never outlives its parent. `frames` defines
the format of the messages.
"""

import gc
import os
import signal
import sys
from typing import BinaryIO

import structlog

from oracle.chain.segments.frames import (
    MAX_FRAME_BYTES,
    WorkerSetup,
    decode_request,
    decode_setup,
    read_frame,
    write_frame,
)
from oracle.chain.segments.preparing import SegmentPreparer

READY_MESSAGE = b"ready"


def main() -> None:
    """Process requests until the input is closed."""
    # Ctrl-C is handled by the parent, which closes the input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer_stream = os.fdopen(os.dup(1), "wb")
    # Printed text must not mix with the frames.
    os.dup2(2, 1)
    # Errors are logged by the writer, which reads the range again.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    try:
        serve_requests(sys.stdin.buffer, answer_stream)
    except BrokenPipeError:
        # The parent process is gone.
        os._exit(0)


def serve_requests(order_stream: BinaryIO, answer_stream: BinaryIO) -> None:
    """Answer each request; the first frame contains the plan and the endpoints.

    Raises:
        InputError: this version cannot read the plan.
    """
    setup_frame = read_frame(order_stream, MAX_FRAME_BYTES)
    if setup_frame is None:
        return
    setup: WorkerSetup = decode_setup(setup_frame)
    preparer = SegmentPreparer(setup.plan, setup.urls)
    gc.collect()
    gc.freeze()
    write_frame(answer_stream, READY_MESSAGE)
    while (order_frame := read_frame(order_stream, MAX_FRAME_BYTES)) is not None:
        write_frame(answer_stream, preparer.prepare(decode_request(order_frame)))
    preparer.close()


if __name__ == "__main__":
    main()
