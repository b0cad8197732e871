"""`qos-oracle`, told to end from inside a weak reference's callback, where a raise would be lost.

The environment says at which collection of garbage that is, counted from when SIGTERM is heard.
"""

import gc
import os
import signal
import weakref

from oracle.cli.main import main

WHEN = "QOS_ORACLE_TESTS_COLLECTION"
# So many objects between two collections: a short run has hundreds of them.
_OBJECTS = 100


class Thing:
    """Anything that can be referred to."""


class Churn:
    """Drops a thing at each collection; in the callback of one of them SIGTERM arrives."""

    def __init__(self, when: int) -> None:
        self.left = when

    def __call__(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start" and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            referent = Thing()
            reference = weakref.ref(referent, self._dropped)
            del referent
            assert reference() is None

    def _dropped(self, _reference: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            # The handler of the main thread runs between two of these.
            for _ in range(1000):
                pass


if __name__ == "__main__":
    gc.set_threshold(_OBJECTS)
    # What is made for the daemon's speed would make this a quiet place.
    gc.set_threshold = lambda *_: None
    gc.callbacks.append(Churn(int(os.environ[WHEN])))
    main()
