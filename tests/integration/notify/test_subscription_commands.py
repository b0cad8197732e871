"""`subscription`: the operator lists and ends subscriptions; no address of an owner is printed."""

import json
from contextlib import closing
from pathlib import Path

from oracle.cli.main import run
from oracle.store.database import Store
from oracle.store.subscription_repository import Subscription
from tests.integration.notify.test_notify_command import config
from tests.support.histories import make_node_address

__all__ = ["config"]

TARGET = "https://example.org/a-private-path"
ENTRY = Subscription(
    id="3f0c",
    node=make_node_address("A"),
    channel="webhook",
    target=TARGET,
    kinds=frozenset({"excluded"}),
    secret=bytes(32),
    created_at=5_000,
)


def test_subscription_ended_by_the_operator_is_erased(config: Path, sqlite_url: str, capsys):
    store = Store.open(sqlite_url)
    with store.transaction() as uow:
        uow.subscriptions.add(ENTRY)
    end = ["subscription", "end", ENTRY.id, "--reason", "it bounces", "-c", str(config)]
    assert run([*end, "--dry-run"]) == 0
    assert run(["subscription", "list", "-c", str(config)]) == 0
    assert run(end) == 0
    assert run(end) == 2
    texts = capsys.readouterr()
    assert run(["subscription", "list", "--json", "-c", str(config)]) == 0
    answer = capsys.readouterr().out
    (listed,) = json.loads(answer)
    assert (listed["state"], listed["reason"]) == ("ended", "ended by the operator: it bounces")
    assert TARGET not in "".join([*texts, answer])
    with closing(store), store.read_transaction() as uow:
        assert uow.subscriptions.list_all()[0].target == ""
