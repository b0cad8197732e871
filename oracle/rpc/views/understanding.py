"""What an endpoint answers is read inside of this: nonsense is no answer, and ends nobody."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from oracle.errors import TransientError
from oracle.rpc.views.fanout import Json, JsonRpcClient, PoolView

Read = TypeVar("Read")


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Take an answer that is not what was asked for as none; `what` names it.

    Raises:
        TransientError: it is not.
    """
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        reason = type(error).__name__
        raise TransientError(
            f"an endpoint answered something else than {what} ({reason})"
        ) from None


def number_of(answer: Json) -> int:
    """Read a quantity, `0x` and hex digits.

    Raises:
        ValueError, TypeError: it is none.
    """
    number = int(answer, 16)
    if number < 0:
        raise ValueError(f"{answer} is no quantity")
    return number


def first_that_tells(lines: PoolView, read: Callable[[JsonRpcClient], Read]) -> Read:
    """Return what the preferred endpoint tells, or the next one where it tells nothing.

    Raises:
        TransientError: none tells.
    """
    failures = []
    for line in lines.all:
        try:
            return read(line)
        except TransientError as error:
            failures.append(error)
    raise failures[0] if failures else TransientError("no endpoint is configured")
