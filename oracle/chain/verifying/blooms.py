"""Compares the blooms of headers with the logs of their blocks (chain.md 3.9, level L3).

A bloom only raises suspicion; nothing is left unasked because of one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from oracle.chain.logs import Filter
from oracle.chain.proof.bloom import mask, may_log
from oracle.chain.verifying.ascent import Ascent, ContradictionError, OmissionError, Reached
from oracle.chain.verifying.comparing import may_hold_all
from oracle.chain.verifying.sealed import Sealed
from oracle.chain.verifying.trust import Trait, Trust
from oracle.domain.logs import Log
from oracle.domain.verification import Level

# Blooms with more bits than this hold nearly everything: only every so many blocks are doubted.
_SATURATED_BITS, _EVERY = 1_000, 8

# Asks an endpoint other than the named one for the logs of a block; None: there is none.
Elsewhere = Callable[[str, Sealed], list[Log] | None]


@dataclass(frozen=True, slots=True)
class Blooms:
    """What blooms say about the logs of one filter."""

    wanted: Filter
    trust: Trust
    elsewhere: Elsewhere
    _addresses: tuple[int, ...] = field(init=False)
    _topics: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_addresses", tuple(map(mask, sorted(self.wanted.addresses))))
        object.__setattr__(self, "_topics", tuple(map(mask, sorted(self.wanted.topics))))

    def may_hide(self, one: Sealed) -> bool:
        """Tell whether to doubt that a block has no logs of ours."""
        bits = one.bloom
        if bits is None or not self.trust.has(Trait.BLOOM) or not self._may_log(bits):
            return False
        return bits.bit_count() < _SATURATED_BITS or one.block.number % _EVERY == 0

    def sift(self, ascent: Ascent, reached: Reached) -> None:
        """Raise the blocks whose blooms agree with what was found.

        Raises:
            ContradictionError: a bloom knows nothing of a log.
            OmissionError: another endpoint has logs that this one left out.
        """
        for one in ascent.blocks:
            bits, logs = one.bloom, reached.logs.get(one.block.number, ())
            if bits is None:
                continue
            if not may_hold_all(bits, logs):
                if not reached.is_proven(one.block.number):
                    words = "its bloom does not know a log that was given"
                    raise ContradictionError(ascent.name, Trait.BLOOM, one, words)
                # The log is there: then it is the bloom that is wrong.
                self.trust.demote(Trait.BLOOM, f"block {one.block.hash} has logs beside it")
                return
        for one in ascent.blocks:
            self._raise(ascent, one, reached)

    def _raise(self, ascent: Ascent, one: Sealed, reached: Reached) -> None:
        number, bits = one.block.number, one.bloom
        if bits is None or reached.is_proven(number) or not ascent.pinned:
            return
        if number not in reached.logs and self._may_log(bits):
            # Of a bloom that knows everything only some are doubted: the others say nothing.
            other = self.elsewhere(ascent.name, one) if self.may_hide(one) else None
            if other is None:
                return
            if other:
                raise OmissionError(ascent.name, one, len(other))
        reached.levels[number] = Level.BLOOMED

    def _may_log(self, bits: int) -> bool:
        return may_log(bits, self._addresses, self._topics)
