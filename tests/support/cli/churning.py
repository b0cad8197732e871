"""Runs `qos-oracle` and sends SIGTERM during a weak reference's callback, which drops exceptions.

An environment variable gives the number of the garbage collection at which SIGTERM is sent,
counted from the installation of the SIGTERM handler.
"""

import gc
import os
import signal
import weakref

from oracle.cli.main import main

WHEN = "QOS_ORACLE_TESTS_COLLECTION"
# The number of objects between two collections: a short run has hundreds of collections.
_OBJECTS = 100


class Referent:
    """An object that supports weak references."""


class SignalDuringCollection:
    """Drops an object at each collection, and sends SIGTERM in the callback of one of them."""

    def __init__(self, when: int) -> None:
        self.left = when

    def __call__(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start" and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            referent = Referent()
            reference = weakref.ref(referent, self._dropped)
            del referent
            assert reference() is None

    def _dropped(self, _reference: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            # The handler runs in the main thread, between two of these iterations.
            for _ in range(1000):
                pass


if __name__ == "__main__":
    gc.set_threshold(_OBJECTS)
    # The daemon's own setting of the threshold would make collections rare.
    gc.set_threshold = lambda *_: None
    gc.callbacks.append(SignalDuringCollection(int(os.environ[WHEN])))
    main()
