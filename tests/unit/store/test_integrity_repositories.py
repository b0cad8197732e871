"""Dead letters, halts, forks, proofs and what was learned of endpoints."""

from oracle.domain.coverage import VerificationLevel
from oracle.domain.logs import DeadLetter
from oracle.store.database import Store
from oracle.store.halts import HaltClearRecord, HaltEvidence
from oracle.store.raw.block_repository import Reorg
from tests.unit.store.samples import address, make_hash

VIOLATION = "finality"


def letter(block: int, index: int = 0, branch: int = 0) -> DeadLetter:
    hash_ = make_hash(100 * branch + block)
    return DeadLetter(block, hash_, 7, 2, index, address(1), "TaskCreated", "nul \x00 in it")


def test_dead_letter_is_open_while_its_block_is_canonical(store: Store):
    with store.transaction() as uow:
        assert uow.dead_letters.append([letter(5), letter(6), letter(6, -1)]) == 3
        assert uow.dead_letters.append([letter(5)]) == 0
        assert uow.dead_letters.orphan_above(5) == 2
        assert uow.dead_letters.append([letter(6, branch=1)]) == 1
        assert uow.dead_letters.list_open(0, 9) == [letter(5), letter(6, branch=1)]
        assert uow.dead_letters.list_between(0, 9, canonical=False) == [letter(6, -1), letter(6)]
        uow.dead_letters.append([letter(6)])
        assert uow.dead_letters.count_open() == 3
        assert uow.dead_letters.has_open(0, 5)
        assert not uow.dead_letters.has_open(0, 4)
        uow.dead_letters.delete_open(0, 5)
        assert not uow.dead_letters.has_open(0, 5)
        assert uow.dead_letters.has_open(6, 6)
        uow.dead_letters.delete_open(0, 9)
        assert uow.dead_letters.count_open() == 0
        assert uow.dead_letters.list_between(0, 9, canonical=False) == [letter(6, -1)]


def test_halt_is_opened_only_once_and_its_history_is_kept(store: Store):
    evidence = HaltEvidence(8, make_hash(1), make_hash(2))
    cleared = HaltClearRecord(99, "somebody", "it was us")
    with store.transaction() as uow:
        assert uow.halts.open_halt(
            VIOLATION, "two say so", evidence, since_block=10, since_time=50
        )
        assert not uow.halts.open_halt(VIOLATION, "once more", since_block=11, since_time=60)
        (closed,) = uow.halts.list_open_halts()
        assert (closed.since_block, closed.since_time, closed.evidence) == (10, 50, evidence)
        assert uow.halts.clear(VIOLATION, cleared)
        assert not uow.halts.clear(VIOLATION, cleared)
        assert uow.halts.find_open_halt(VIOLATION) is None
        assert uow.halts.open_halt(VIOLATION, "again", since_block=20, since_time=90)
        assert [halt.cleared for halt in uow.halts.list_newest_halts(9)] == [None, cleared]


def test_expired_endpoint_facts_are_not_returned(store: Store):
    with store.transaction() as uow:
        uow.facts.set("a", {"max_blocks": "100", "tag": "safe"}, expires=50)
        uow.facts.set("a", {"client": "geth"}, expires=None)
        uow.facts.set("b", {"max_blocks": "7"}, expires=90)
        assert uow.facts.get_all("a", now=49) == {
            "max_blocks": "100",
            "tag": "safe",
            "client": "geth",
        }
        assert uow.facts.get_all("a", now=50) == {"client": "geth"}
        assert uow.facts.get("b", "max_blocks", now=60) == "7"
        uow.facts.set("b", {"max_blocks": "8"}, expires=90)
        uow.facts.delete_expired(now=60)
        assert uow.facts.get_all("a", now=0) == {"client": "geth"}
        uow.facts.delete("b", "max_blocks")
        assert uow.facts.get_all("b", now=0) == {}


def test_reorgs_are_listed_newest_first(store: Store):
    forks = [
        Reorg(9, make_hash(9), 12, make_hash(12), 13, make_hash(13), 70, ("a", "b"), 4),
        Reorg(12, make_hash(12), 14, make_hash(14), None, None, 80, (), 0),
    ]
    with store.transaction() as uow:
        for fork in forks:
            uow.reorgs.append(fork)
        assert uow.reorgs.list_newest(5) == forks[::-1]
        assert uow.reorgs.list_newest(1) == forks[1:]
        assert uow.reorgs.count() == 2
    assert [fork.depth for fork in forks] == [3, 2]


def test_block_keeps_highest_verification_level(store: Store):
    with store.transaction() as uow:
        uow.verified_blocks.save(
            [(5, make_hash(5)), (6, make_hash(6))], VerificationLevel.PROVEN, "a"
        )
        uow.verified_blocks.save(
            [(6, make_hash(6)), (7, make_hash(7))], VerificationLevel.PINNED, "b"
        )
        assert uow.verified_blocks.get_level_by_number(0, 9) == {
            5: VerificationLevel.PROVEN,
            6: VerificationLevel.PROVEN,
            7: VerificationLevel.PINNED,
        }
        uow.discard_verification_above(5)
        assert uow.verified_blocks.get_level_by_number(0, 9) == {5: VerificationLevel.PROVEN}
