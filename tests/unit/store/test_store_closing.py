"""A closing store first ends the reads of other threads."""

from oracle.store.database import Store


def test_readers_are_stopped_before_the_store_closes(tmp_path):
    cursors: list[object] = []

    def stop_reader() -> None:
        with store.read_transaction() as uow:
            cursors.append(uow.cursor.get())

    with Store.open(f"sqlite:///{tmp_path}/index.sqlite", create=True) as store:
        store.call_before_close(stop_reader)
        store.call_before_close(stop_reader)
        assert cursors == []
    assert cursors == [None]
    store.close()
    assert cursors == [None]
