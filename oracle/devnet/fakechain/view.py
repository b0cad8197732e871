"""Which blocks an endpoint shows: the branch of its head, and what it showed before."""

from itertools import islice

from oracle.devnet.fakechain.block_json import Block
from oracle.devnet.fakechain.tree import branch


class View:
    """One branch at a time; heights that the chain skipped are None."""

    def __init__(self, head: Block) -> None:
        self._branch: list[Block | None] = []
        for block in branch(head):
            self._put(block)
        self._shown = {block.hash for block in branch(head)}
        self.head = head

    def show(self, head: Block) -> list[Block]:
        """Switch to the branch of another head; return what is new on it, lowest first."""
        came: list[Block] = []
        at: Block | None = head
        while at is not None and not self.shows(at):
            came.append(at)
            at = at.parent
        came.reverse()
        # Another thread may be reading: the list that it holds stays as it is.
        kept = self._branch[: at.number + 1] if at is not None else []
        if len(kept) < len(self._branch):
            self._branch = kept
        for block in came:
            self._put(block)
            self._shown.add(block.hash)
        self.head = head
        return came

    def _put(self, block: Block) -> None:
        self._branch += [None] * (block.number - len(self._branch))
        self._branch.append(block)

    def at(self, number: int) -> Block | None:
        """Return the block at this height."""
        return self._branch[number] if 0 <= number <= self.head.number else None

    def between(self, first: int, last: int) -> list[Block]:
        """Return the blocks of a range, as far as there are any."""
        last = min(last, self.head.number)
        return [one for one in islice(self._branch, max(0, first), last + 1) if one is not None]

    def below_head(self, blocks: int) -> Block | None:
        """Return the block so many below the head, or the first one."""
        number = max(0, self.head.number - blocks)
        while number and self._branch[number] is None:
            number -= 1
        return self._branch[number]

    def shows(self, block: Block) -> bool:
        """Tell whether a block is on the branch."""
        found = self._branch[block.number] if block.number < len(self._branch) else None
        return found is not None and found.hash == block.hash

    def has_shown(self, block: Block) -> bool:
        """Tell whether a block is on the branch, or once was."""
        return block.hash in self._shown
