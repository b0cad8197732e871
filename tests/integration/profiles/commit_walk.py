"""Random traffic on the contracts with commit and disclosure: allowed and rejected calls."""

import random
from collections.abc import Callable, Iterator
from functools import partial

from tests.integration.profiles.commit_ledger import Job, Part
from tests.integration.profiles.commit_network import CommitNetwork

# Relative frequencies of the actions.
Deed = tuple[int, Callable[[], None]]

RIGHT = b"right"
RESULTS = (*5 * (RIGHT,), b"wrong", b"other")
GPUS = (("NVIDIA GeForce RTX 4090", 24), ("NVIDIA RTX 3060", 12), ("NVIDIA GTX 1060", 6))


class Walk:
    """Takes random steps; the same seed gives the same steps."""

    def __init__(self, network: CommitNetwork, seed: int) -> None:
        self.network = network
        # Not for secrets: a failed walk must be repeatable.
        self.chance = random.Random(seed)  # noqa: S311
        self.sealed: dict[tuple[int, int], bytes] = {}
        # These nodes rarely answer.
        self.lazy = {node.lower() for node in network.nodes[-2:]}

    def blocks(self, count: int) -> None:
        """Mine this number of blocks, each with up to four actions."""
        for _ in range(count):
            if self.chance.random() < 0.04:
                self.network.later(900)
            for _ in range(self.chance.randint(1, 4)):
                self._step()
            self.network.mine(self.chance.choice((0, 1, 12, 12, 60)))

    def _step(self) -> None:
        deeds = [*self._of_nodes(), *self._of_the_creator(), *self._of_the_refused()]
        for job in self.network.ledger.jobs.values():
            deeds += self._of_the_job(job)
        weights = [weight for weight, _ in deeds]
        self.chance.choices(deeds, weights)[0][1]()

    def _of_nodes(self) -> Iterator[Deed]:
        network = self.network
        for node in network.nodes:
            member = network.ledger.members.get(node.lower())
            if member is None or not member.is_in:
                gpu, vram = self.chance.choice(GPUS)
                yield 20, partial(network.join, node, gpu=gpu, vram=vram)
            elif member.status == "paused":
                yield 10, partial(network.resume, node)
                yield 2, partial(network.quit, node)
            elif member.request is None:
                yield 3, partial(network.pause, node)
                yield 2, partial(network.quit, node)

    def _of_the_creator(self) -> Iterator[Deed]:
        ledger = self.network.ledger
        min_fee = min((job.fee for job in ledger.queue), default=0)
        fee = min_fee + self.chance.randint(1, 5)
        yield 40, partial(self._create, fee)

    def _create(self, fee: int) -> None:
        self.network.create(fee)

    def _of_the_job(self, job: Job) -> Iterator[Deed]:
        network = self.network
        if job in network.ledger.queue:
            yield 3, lambda: network.cancel(job, sender=network.stranger)
        elif job.open_parts and network.may_cancel(job):
            yield 60, lambda: network.cancel(job)
        if job.winner is not None and job.winner.ending is None:
            yield 10, lambda: network.upload(job)
        for part in job.open_parts:
            eagerness = 1 if part.node in self.lazy else 20
            for weight, deed in self._of_the_part(job, part):
                yield weight * eagerness, deed

    def _of_the_part(self, job: Job, part: Part) -> Iterator[Deed]:
        network, place = self.network, part.round
        if part not in job.commits:
            yield 1, lambda: network.report_error(job, place)
            if not job.is_aborted:
                yield 6, lambda: self._commit(job, place)
        elif part not in job.disclosures and len(job.commits) == 3 and not job.is_aborted:
            result = self.sealed[job.number, place]
            yield 6, lambda: network.disclose(job, place, result=result)

    def _commit(self, job: Job, place: int) -> None:
        result = self.sealed[job.number, place] = self.chance.choice(RESULTS)
        self.network.commit(job, place, result=result)

    def _of_the_refused(self) -> Iterator[Deed]:
        """Calls to watched functions that are mined and fail, without an effect."""
        network = self.network
        for node in network.nodes:
            yield 1, partial(self._refused_of_the_node, node)
        for job in network.ledger.jobs.values():
            for part in job.open_parts:
                yield from self._refused_of_the_part(job, part)

    def _refused_of_the_node(self, node: str) -> None:
        member = self.network.ledger.members.get(node.lower())
        moves = self.network.node.functions
        is_in = member is not None and member.is_in
        self.network.fails(node, moves.join("again", 1) if is_in else moves.quit())

    def _refused_of_the_part(self, job: Job, part: Part) -> Iterator[Deed]:
        network, place = self.network, part.round
        if part in job.commits:
            yield 2, lambda: network.fails(part.node, network.commitment(job, place))
        if len(job.commits) < 3:
            yield 2, lambda: network.fails(part.node, network.disclosure(job, place, RIGHT))
        yield 1, lambda: network.fails(network.stranger, network.commitment(job, place))
