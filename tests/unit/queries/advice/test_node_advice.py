"""What the owner of a node is advised, on the page and in the API, from the same rows."""

import pytest
from fastapi.testclient import TestClient

from tests.support.api import IndexedHistory
from tests.support.histories import History, node


@pytest.fixture
def client(new_sqlite_store):
    """A is near a kickout, B is not, C has no score."""
    history = History().joins("A", "B", "C").scores("B", 10, 5)
    history.scores("A", *[10] * 12, *[0] * 26).after(3_600)
    with new_sqlite_store() as store:
        yield IndexedHistory(store).whole(history).client()


def test_near_kickout_is_in_the_answer_and_on_the_page(client: TestClient):
    advice = client.get(f"/v1/nodes/{node('A')}/advice").json()

    # After 15 more zeros, three of the twelve first places have left the pool.
    assert advice["kickout"]["scores"] == 15
    assert advice["kickout"]["recent_scores"] == 20
    assert (advice["kickout"]["first_places"], advice["kickout"]["second_places"]) == (1, 2)
    assert advice["kickout"]["seconds"] % 15 == 0
    page = client.get(f"/nodes/{node('A')}").text
    assert "<h1>At this rate a kickout is due in 15 scored tasks" in page
    assert "One first place or two second places in these tasks would avoid the kickout" in page
    assert "if they go like its last 20 scores" in page


@pytest.mark.parametrize("name", ["B", "C"])
def test_node_that_does_well_has_no_outlook_on_a_kickout(client: TestClient, name: str):
    assert client.get(f"/v1/nodes/{node(name)}/advice").json()["kickout"] is None
    assert "At this rate" not in client.get(f"/nodes/{node(name)}").text
