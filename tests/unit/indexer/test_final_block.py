"""The final block that we hold is one that we have read."""

from oracle.chain.heads import Heads
from oracle.domain.blocks import BlockRange
from oracle.domain.ids import Hash
from oracle.indexer.commit import FetchedWindow
from tests.support.scripted import ScriptedChain, ScriptedReader
from tests.support.txmgr.follower import Follower
from tests.support.txmgr.stores import NewStore

FOREIGN = Hash("0x" + "f0" * 32)


def test_a_final_block_above_the_window_is_not_taken_down():
    chain = ScriptedChain()
    for _ in range(40):
        chain.mine()
    window = chain.window(BlockRange(1, 10), with_headers=False)
    heads = chain.heads()
    elsewhere = Heads(heads.latest, heads.safe, heads.final._replace(hash=FOREIGN))
    arrival = FetchedWindow(window, ScriptedReader().read([], []), elsewhere, None)

    assert arrival.newer_final == window.last


def test_the_final_block_never_lies_above_the_cursor(new_store: NewStore):
    chain = ScriptedChain(most_blocks=7)
    for _ in range(40):
        chain.mine()
    with new_store() as store:
        follower = Follower(chain, store)
        while follower.step() is not None:
            with store.reading() as uow:
                cursor = uow.cursor.get()
            assert cursor is not None
            assert cursor.final_number is not None
            assert cursor.final_number <= cursor.number
