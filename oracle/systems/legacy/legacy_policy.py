"""The legacy selection as a policy: the candidates of a task, and the chance to be drawn first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fixed_point import UNIT, decimal_text
from oracle.domain.ids import Address
from oracle.domain.state.node import Membership
from oracle.domain.state.task import Task
from oracle.systems.legacy.grading import CardGroup
from oracle.systems.legacy.legacy_eligibility import candidacy_of
from oracle.systems.legacy.submission_speed import SubmissionSpeed, speeds
from oracle.systems.legacy.trio_selection import TrioChoice, choose_trio
from oracle.systems.policy import CandidateVerdict, PolicyInput


@dataclass(frozen=True, slots=True)
class LegacyPolicy:
    """Three nodes per task, drawn by submission speed, or with equal chances if `equal`."""

    name: str
    version: int
    equal: bool

    def follow(self) -> "LegacyPolicy":
        """Return the policy itself, because all inputs are in the nodes' rows."""
        return self

    def choose(self, task: Task, policy_input: PolicyInput, seed: bytes) -> TrioChoice | None:
        """Draw three nodes, of one card for a GPT task, or return None if the task has to wait."""
        return choose_trio(task, policy_input, seed, equal=self.equal)

    def weights(self, policy_input: PolicyInput) -> Mapping[Address, SubmissionSpeed]:
        """Return the weight with which each member is drawn within its group."""
        is_member = Membership.MEMBER
        members = [one for one in policy_input.nodes.values() if one.membership is is_member]
        return speeds(members, policy_input.time, policy_input.rules, equal=self.equal)

    def take(self, event: DomainEvent) -> None:
        """Ignore the event, because the fold has applied it to the nodes' rows."""

    def verdicts(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Return a verdict on every member, ascending by address.

        The weight is the chance to be drawn first, in units of 10^-18; for a GPT task it is the
        chance of the node's card group times the node's chance within it. Nodes drawn one after
        another by these weights need not have the same card: `choose_nodes` draws all three.
        """
        found = candidacy_of(task, policy_input)
        weights = speeds(found.members, policy_input.time, policy_input.rules, equal=self.equal)
        verdicts = [
            CandidateVerdict(address, None, out, _speed_parts(weights[address]))
            for address, out in found.out.items()
        ]
        for group, nodes in found.groups.items():
            those = {node.address: weights[node.address] for node in nodes}
            verdicts.extend(_candidates(group, those, found.size))
        return sorted(verdicts, key=lambda verdict: verdict.node)


def _candidates(
    group: CardGroup | None, speeds_of: Mapping[Address, SubmissionSpeed], candidates: int
) -> Iterator[CandidateVerdict]:
    """Yield verdicts on the candidates of one group, which is drawn by its size."""
    total = sum(speed.weight for speed in speeds_of.values())
    chance = len(speeds_of) * UNIT // candidates
    drawn = (
        {}
        if group is None
        else {
            "card": group.text,
            "of_its_card": str(len(speeds_of)),
            "card_chance": decimal_text(chance),
        }
    )
    for address, speed in speeds_of.items():
        # If all weights are zero, each counts 1, as in the draw.
        share = chance * speed.weight // total if total else chance // len(speeds_of)
        yield CandidateVerdict(address, share, None, drawn | _speed_parts(speed))


def _speed_parts(speed: SubmissionSpeed) -> dict[str, str]:
    share = "none" if speed.share is None else decimal_text(speed.share)
    return {"B": share, "weight": decimal_text(speed.weight)}


# Drawn by B, or with equal chances, as the documents' section on groups describes
# (docs/reference/sources.md#crynux-dispatching-of-2024).
LEGACY_POLICY = LegacyPolicy("legacy", 2, equal=False)
LEGACY_EQUAL_POLICY = LegacyPolicy("legacy-equal", 2, equal=True)
