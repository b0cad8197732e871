"""The leaves of rounds and reports over HTTP, and two reporters that compare theirs."""

import hashlib
import re
import runpy
from base64 import b32decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from oracle.chain.proofs.keccak import keccak
from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.http_server import serve_app
from oracle.domain.fixed_point import UNIT
from oracle.domain.roots.merkle_tree import compute_root
from oracle.domain.roots.pieces import compute_piece_digest
from oracle.errors import InputError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.rules_binding import bind_or_check_rules
from oracle.queries.api.node_order import NodeRankingCache
from oracle.queries.api.source import ApiSource
from oracle.queries.leaf_comparison import PeerLeaves, compare_report_with_peer, verify_round
from oracle.queries.leaf_models import LeavesAnswer
from oracle.store.database import Store
from tests.support.accepted_rounds import (
    accept_newest_report,
    load_newest_report,
    remove_contract_events,
)
from tests.support.scripted import ScriptedReader
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import RULES, Follower, mine_blocks
from tests.support.txmgr.stores import NewStore

BLOCKS = remove_contract_events(Traffic(5).blocks(20))


@pytest.fixture
def store(new_sqlite_store: NewStore) -> Iterator[Store]:
    """One engine; the rows themselves are tested on both."""
    with new_sqlite_store() as opened:
        yield opened


def follow(store: Store) -> Follower:
    """Return a follower that has cut reports of 20 blocks with traffic."""
    follower = Follower(mine_blocks(BLOCKS), store)
    follower.catch_up()
    with store.transaction() as uow:
        bind_or_check_rules(uow, RULES)
    return follower


def create_app(store: Store):
    source = ApiSource(
        EventArchive(store, ScriptedReader(), RULES),
        NodeRankingCache(RULES),
        lambda: None,
        lambda: 2_000,
        lambda _held: "a daemon",
        rules_id="{}",
    )
    return create_read_api(source, streams=ApiSection(max_streams=0))


@contextmanager
def serve(store: Store) -> Iterator[str]:
    with serve_app(create_app(store), ApiSection(), 0) as url:
        yield url


def cut_with_forged_score(follower: Follower) -> None:
    """Mine until the next report is cut, with another score of the first node in the state."""
    with follower.store.transaction() as uow:
        node = next(iter(uow.nodes.iterate_all()))
        uow.nodes.save([replace(node, base=UNIT // 3, pool=b"\x0a" * 4, pool_sum=40)])
    follower.restart()


def test_leaf_chunks_of_an_accepted_round_hash_to_its_root(store: Store):
    follower = follow(store)
    accepted_round = accept_newest_report(follower)
    client = TestClient(create_app(store))
    body = client.get("/v1/rounds/1/leaves").json()
    leaves = LeavesAnswer.model_validate(body).leaves
    response = client.get("/v1/rounds/1/leaves/0")

    (entry,) = leaves.pieces
    digest = compute_piece_digest(0, response.content, keccak, is_only_piece=True)
    path = [bytes.fromhex(text[2:]) for text in entry.path]
    assert "0x" + digest.nodes_hash.hex() == entry.nodes_hash
    assert "0x" + compute_root(digest.nodes_hash, path, keccak).hex() == leaves.root
    assert leaves.summary.node_count == digest.leaf_count == len(response.content) // 128
    assert (leaves.summary.as_of, leaves.as_of_hash) == (
        accepted_round.as_of,
        accepted_round.as_of_hash,
    )


def test_client_from_the_documentation_computes_the_root(store: Store, tmp_path, capsys):
    accept_newest_report(follow(store))
    page = (Path(__file__).parents[3] / "docs/reference/report-format.md").read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "client.py"
    path.write_text(program, "utf-8")
    main = runpy.run_path(str(path))["main"]
    with serve(store) as url:
        assert main(url, 1)
    assert load_newest_report(store).root in capsys.readouterr().out


def test_leaf_chunk_is_addressed_by_content_hash(store: Store):
    follower = follow(store)
    accept_newest_report(follower)
    client = TestClient(create_app(store))
    response = client.get("/v1/rounds/1/leaves/0")

    cid = response.headers["x-ipfs-roots"]
    content_hash = hashlib.sha256(response.content).digest()
    padding = "=" * (-len(cid[1:]) % 8)
    assert b32decode(cid[1:].upper() + padding) == b"\x01\x55\x12\x20" + content_hash
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["etag"] == f'"{cid}"'
    again = client.get("/v1/rounds/1/leaves/0", headers={"if-none-match": f'"{cid}"'})
    assert (again.status_code, again.content) == (304, b"")


def test_leaf_chunk_is_cacheable_forever_once_its_round_is_final(store: Store):
    follower = follow(store)
    accept_newest_report(follower)
    client = TestClient(create_app(store))
    assert client.get("/v1/rounds/1/leaves/0").headers["cache-control"] == "no-cache"

    mine_blocks([[]] * 10, follower.chain)
    follower.catch_up()
    assert "immutable" in client.get("/v1/rounds/1/leaves/0").headers["cache-control"]


@pytest.mark.parametrize("path", ["rounds/2/leaves", "rounds/2/leaves/0", "rounds/1/leaves/1"])
def test_unknown_round_or_leaf_chunk_returns_404(store: Store, path: str):
    follower = follow(store)
    accept_newest_report(follower)
    assert TestClient(create_app(store)).get(f"/v1/{path}").status_code == 404


def test_comparison_of_equal_reports_finds_no_difference(store: Store, new_sqlite_store: NewStore):
    follow(store)
    period = load_newest_report(store).period
    with new_sqlite_store() as other:
        follow(other)
        with serve(other) as url:
            comparison = compare_report_with_peer(store, PeerLeaves(url), period)

    assert comparison.same
    assert (comparison.summary, comparison.leaf) == ([], None)


def test_forged_leaf_is_reported_field_by_field(store: Store, new_sqlite_store: NewStore):
    follower = follow(store)
    with new_sqlite_store() as other:
        forger = follow(other)
        cut_with_forged_score(forger)
        for reporter in (follower, forger):
            mine_blocks([[] for _ in range(7)], reporter.chain)
            reporter.catch_up()
        report = load_newest_report(store)
        with serve(other) as url:
            comparison = compare_report_with_peer(store, PeerLeaves(url), report.period)

    assert not comparison.same
    assert comparison.own_root == report.root != comparison.peer_root
    leaf = comparison.leaf
    assert leaf is not None
    assert leaf.own_leaf is not None
    assert leaf.other_leaf is not None
    assert leaf.own_leaf.node == leaf.other_leaf.node
    assert leaf.other_leaf.reliability != leaf.own_leaf.reliability
    names = {entry.name for entry in leaf.fields}
    assert {"reliability", "pool_hash"} <= names
    assert "node" not in names


def test_leaf_chunk_not_matching_its_hash_is_rejected(store: Store, new_sqlite_store: NewStore):
    follower = follow(store)
    with new_sqlite_store() as other:
        forger = follow(other)
        cut_with_forged_score(forger)
        for reporter in (follower, forger):
            mine_blocks([[] for _ in range(7)], reporter.chain)
            reporter.catch_up()
        period = load_newest_report(store).period
        with serve(other) as url:
            peer = PeerLeaves(url)
            listed = peer.fetch_piece_hashes(period)
            entry = listed.pieces[0].model_copy(update={"nodes_hash": "0x" + 64 * "1"})
            with pytest.raises(InputError, match="piece 0 does not have the hash"):
                peer.fetch_piece_leaves(period, listed.model_copy(update={"pieces": [entry]}), 0)


def test_url_without_a_read_api_fails_with_a_one_line_error(store: Store):
    follow(store)
    period = load_newest_report(store).period
    with pytest.raises(InputError, match="--with: not a valid URL"):
        PeerLeaves("ftp://example.org")
    with pytest.raises(InputError, match=r"127\.0\.0\.1"):
        compare_report_with_peer(store, PeerLeaves("http://127.0.0.1:9"), period)


def test_verification_reports_the_first_leaf_that_differs(store: Store):
    follower = follow(store)
    cut_with_forged_score(follower)
    mine_blocks([[] for _ in range(7)], follower.chain)
    follower.catch_up()
    report = load_newest_report(store)
    accepted_round = accept_newest_report(follower)
    archive = EventArchive(store, ScriptedReader(), RULES)

    verification = verify_round(accepted_round.round, follower.chain, archive, lambda _: {})

    assert accepted_round.root == report.root != verification.computed_root
    assert (verification.same, verification.same_block) == (False, True)
    difference = verification.leaf_difference
    assert difference is not None
    assert {"reliability", "pool_hash"} <= {entry.name for entry in difference.fields}
