"""`objection sign --send`: the command posts to a reporter's read API over HTTP."""

import pytest

from oracle.cli.objection_commands import post_objection
from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.http_server import serve_app
from oracle.errors import InputError
from oracle.queries.objection_models import SignedObjectionAnswer
from tests.support.api import IndexedHistory
from tests.support.txmgr.stores import new_sqlite_store
from tests.unit.queries.api.test_posted_objections import CONTRACT, build_body, indexed

__all__ = ["indexed", "new_sqlite_store"]


def test_objection_command_posts_signed_objection(indexed: IndexedHistory):
    body = build_body(to=CONTRACT, calldata="0x")
    signed = SignedObjectionAnswer.model_validate(body)
    section = ApiSection()
    with serve_app(create_read_api(indexed.source, streams=section), section, 0) as url:
        post_objection(url, signed)
        with pytest.raises(InputError, match="refused: an objection of the node was accepted"):
            post_objection(f"{url}/", signed)
        with pytest.raises(InputError, match="the objection was refused"):
            post_objection(f"{url}/elsewhere", signed)
