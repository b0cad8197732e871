"""Draws calls with proofs: kickouts, words, seats and challenges, valid and invalid."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.contracts.fuzz.evm import GAS
from tests.contracts.fuzz.roots.module_refusals import MAX_RUN
from tests.contracts.fuzz.roots.state import ACCUSED, EXPELLED, Place, State
from tests.contracts.fuzz.roots.step import Step
from tests.contracts.fuzz.roots.trees import BEST_LANE, ZERO_QOS, Contents, Leaf, Proof, lanes_of
from tests.contracts.fuzz.step import WAIT


@dataclass(frozen=True, slots=True)
class ProofDrawer:
    """Draws calls with proofs, for a state that already has the time of the call."""

    chosen: Random
    place: Place

    # --- kickouts ---

    def accuse(self, later: State) -> Step:
        contents = self._contents(later)
        if contents is None:
            return Step(WAIT)
        due = [at for at, leaf in enumerate(contents.leaves) if _is_accusable(later, leaf)]
        return self._forward("accuse", *self._claim(contents, self._choose(contents, due)))

    def execute(self, later: State) -> Step:
        contents = self._contents(later)
        if contents is None:
            return Step(WAIT)
        some, leaves = self.chosen, contents.leaves
        accused = _places_of(contents, later, ACCUSED)
        due = [
            at for at in accused if leaves[at].due_since == later.kick(leaves[at].node).due_since
        ]
        claim = self._claim(
            contents, self._choose(contents, due if some.random() < 0.9 else accused)
        )
        summary = contents.summary
        if some.random() < 0.08:
            earlier = later.contents.get(later.round - 1, contents).summary
            changed = (summary._replace(open_count=summary.open_count ^ 1), earlier)
            summary = some.choice(changed)
        step = self._forward("executeKick", *claim, tuple(summary))
        target = later.kick_limits.gas
        is_starved = some.random() < 0.2
        gas = target + some.randint(-10_000, 200_000) if is_starved else GAS
        return replace(step, gas=gas)

    def clear(self, later: State) -> Step:
        contents = self._contents(later)
        if contents is None:
            return Step(WAIT)
        accused = _places_of(contents, later, ACCUSED)
        recovered = [
            at
            for at in accused
            if contents.leaves[at].due_since != later.kick(contents.leaves[at].node).due_since
        ]
        return Step(
            "clear",
            arguments=self._claim(contents, self._choose(contents, recovered or accused)),
        )

    def _forward(self, name: str, *arguments: Any) -> Step:
        return Step(name, arguments=arguments, is_forwarded=self.chosen.random() < 0.1)

    def _contents(self, later: State) -> Contents | None:
        """Return mostly the last round's contents; None before the first round."""
        if not later.round:
            return None
        earlier = max(later.round - self.chosen.choice((1, 1, 2, 5)), 1)
        is_earlier = self.chosen.random() < 0.06
        return later.contents[earlier if is_earlier else later.round]

    def _choose(self, contents: Contents, places: list[int]) -> int:
        """Return mostly one of these indexes."""
        if places and self.chosen.random() < 0.9:
            return self.chosen.choice(places)
        return self.chosen.randrange(len(contents.leaves))

    def _claim(self, contents: Contents, at: int) -> tuple[Any, Any]:
        """Return a leaf and its proof; one in twelve is invalid."""
        leaf = contents.leaves[at].abi
        proof = contents.prove_leaf(at)
        if self.chosen.random() < 0.08:
            return self._twist(contents, leaf, proof)
        return leaf, proof

    def _twist(self, contents: Contents, leaf: tuple[int, ...], proof: Proof) -> tuple[Any, Any]:
        at = self.chosen.randrange(4)
        bits = (160, 160, 256, 256)[at]
        changed = list(leaf)
        changed[at] ^= 1 << self.chosen.randrange(bits)
        levels = contents.node_tree.levels
        pair = [int.from_bytes(node) for node in levels[0][:2]]
        inner = (leaf[0], leaf[1], pair[0], pair[-1])
        variants: tuple[tuple[tuple[int, ...], Proof], ...] = (
            (tuple(changed), proof),
            (leaf, proof[:-1]),
            (leaf, proof[1:]),
            (leaf, [*proof, 0]),
            (leaf, proof[::-1]),
            (leaf, []),
            # Two hashes of the tree in place of a leaf's values.
            (inner, proof[1:]),
            (leaf, [int.from_bytes(contents.summary_hash)]),
        )
        return self.chosen.choice(variants)

    # --- the hot set ---

    def bring(self, later: State) -> Step:
        some = self.chosen
        rounds = [later.round, later.round - self.place.lag]
        round_ = some.choice(rounds)
        if some.random() < 0.05:
            round_ = some.choice((0, later.round - 1, later.round + 1, later.round))
        contents = later.contents.get(round_)
        if contents is None:
            arguments: tuple[Any, ...] = (max(round_, 0), 0, [1], [])
            return Step("bring", arguments=arguments)
        width = len(contents.word_tree.levels[0])
        run = some.choice([1 << height for height in range(width.bit_length())])
        at = run * some.randrange(width // run)
        too_high = [
            place
            for place, (_, word) in enumerate(contents.words)
            if max(lanes_of(word)) > BEST_LANE
        ]
        if too_high and some.random() < 0.5:
            run = 1
            at = some.choice(too_high)
        padded = [*contents.words, *((place, 0) for place in range(len(contents.words), width))]
        words = [word for _, word in padded[at : at + run]]
        first = padded[at][0] if run == 1 else at
        call = (round_, first, words, contents.prove_words(at, run))
        if some.random() < 0.1:
            call = self._twist_run(*call)
        return Step("bring", arguments=call)

    def _twist_run(
        self, round_: int, first: int, words: list[int], proof: Proof
    ) -> tuple[int, int, list[int], Proof]:
        run = len(words)
        other = [words[0] ^ 1 << self.chosen.randrange(256), *words[1:]]
        variants: tuple[tuple[int, int, list[int], Proof], ...] = (
            (round_, first + run, words, proof),
            (round_, first + 1, words, proof),
            (round_, first, other, proof),
            (round_, first, words[::-1], proof),
            (round_, first, words, proof[:-1]),
            (round_, first, words, [0, *proof]),
            (round_, first, [*words, 0, 0], proof),
            (round_, first, [], proof),
            (round_, 0, [0] * 2 * MAX_RUN, proof),
        )
        return self.chosen.choice(variants)

    def bind(self, later: State) -> Step:
        some = self.chosen
        contents = later.contents.get(later.round - self.place.lag)
        if contents is None:
            return Step("bind", arguments=([], []))
        count = some.choice((0, 1, 1, 2, 5))
        places = [some.randrange(len(contents.leaves)) for _ in range(count)]
        claims = [self._claim(contents, at) for at in places]
        leaves = [leaf for leaf, _ in claims]
        proofs = [proof for _, proof in claims]
        if some.random() < 0.05:
            proofs = proofs[:-1]
        return Step("bind", arguments=(leaves, proofs))

    # --- challenges ---

    def challenge(self, later: State) -> Step:
        """Return mostly the proof of an error of a forged round, if such a round is kept."""
        some = self.chosen
        if not later.round:
            return Step("wrongLane", arguments=(some.choice((0, 1)), (1, 1, 1, 1), []))
        first_kept = max(later.round - self.place.kept + 1, 1)
        forged = [
            number
            for number in range(first_kept, later.round + 1)
            if later.contents[number].is_forged
        ]
        usual = max(later.round - some.choice((0, 0, 0, 1, 2, 7)), 1)
        round_ = some.choice(forged) if forged and some.random() < 0.7 else usual
        contents = later.contents[round_]
        at = some.randrange(len(contents.leaves))
        errors = list(_find_contradictions(contents))
        if not errors or some.random() < 0.2:
            errors = [("twoLeaves", (at, at - 1)), ("wrongLane", (at,)), ("wrongPool", (at,))]
        name, places = some.choice(errors)
        claims = (part for place in places for part in self._claim(contents, place))
        pool = (contents.leaves[places[0]].pool + some.choice((b"", b"", b"", b"\1")),)
        return Step(name, arguments=(round_, *claims, *(pool if name == "wrongPool" else ())))


def _find_contradictions(contents: Contents) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the challenges that prove an error of these contents, with the places of leaves."""
    leaves = contents.leaves
    for place, leaf in enumerate(leaves):
        if leaf.lane != leaf.expected_lane:
            yield "wrongLane", (place,)
        if (leaf.score_count, leaf.score_sum) != (len(leaf.pool), sum(leaf.pool)):
            yield "wrongPool", (place,)
        for other_place, other in enumerate(leaves):
            is_twin = leaf.node == other.node or leaf.seat == other.seat
            if place != other_place and (is_twin or leaf.is_in_gap(other.node)):
                yield "twoLeaves", (place, other_place)


def _is_accusable(later: State, leaf: Leaf) -> bool:
    kick = later.kick(leaf.node)
    is_due = leaf.due_since > kick.spared_until and leaf.due_since != kick.due_since
    is_low = leaf.lane < later.limits.kick_below + ZERO_QOS
    return is_due and is_low and kick.state < EXPELLED


def _places_of(contents: Contents, later: State, kick_state: int) -> list[int]:
    return [
        at for at, leaf in enumerate(contents.leaves) if later.kick(leaf.node).state == kick_state
    ]
