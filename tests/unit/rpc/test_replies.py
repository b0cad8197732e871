"""Matching responses to requests, and reading errors of any shape."""

import pytest

from oracle.rpc.replies import (
    JsonRpcErrorBody,
    JsonRpcResponse,
    extract_body_excerpt,
    index_responses_by_request_id,
    is_response_to_other_request,
    is_truncated_json,
    matches_request_id,
    parse_error_body,
)


@pytest.mark.parametrize("returned_id", [7, "7", 7.0])
def test_response_id_is_accepted_as_number_or_string(returned_id: object):
    assert matches_request_id(returned_id, 7, is_error=False)


@pytest.mark.parametrize("returned_id", [8, "8", 7.5, True, "", "0x7", [7], {}])
def test_mismatched_response_id_is_rejected(returned_id: object):
    assert not matches_request_id(returned_id, 7, is_error=True)


@pytest.mark.parametrize("is_error", [True, False])
def test_response_without_id_is_accepted_only_for_errors(*, is_error: bool):
    assert matches_request_id(None, 7, is_error=is_error) is is_error


def test_batch_responses_are_matched_by_id():
    first = JsonRpcResponse[str]("2", "b")
    second = JsonRpcResponse[str](1, "a")

    assert index_responses_by_request_id([first, second], {1, 2, 3}) == {2: first, 1: second}


@pytest.mark.parametrize("ids", [[1, 4], [1, 1], [1, None]])
def test_batch_with_unmatched_or_duplicate_ids_is_rejected(ids: list[object]):
    assert (
        index_responses_by_request_id(
            [JsonRpcResponse[str](response_id, "a") for response_id in ids], {1, 2, 3}
        )
        is None
    )


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ({"code": -32601, "message": "no such method"}, -32601, "no such method"),
        ({"code": "-32601", "message": "no such method"}, -32601, "no such method"),
        ({"code": -32601.0, "message": None}, -32601, ""),
        ({"message": None, "data": {"reason": "full"}}, 0, '{"reason":"full"}'),
        ({"code": "E17", "message": "busy", "data": "try later"}, 0, "busy: try later"),
        ({"code": 3, "message": "reverted", "data": "0x08c379a0"}, 3, "reverted"),
        ({"code": -32000, "message": {"text": "busy"}}, -32000, ""),
        ({"code": -32000, "error": {"message": "busy"}}, -32000, "busy"),
        ("Unsupported", 0, "Unsupported"),
        (["Unsupported"], 0, "Unsupported"),
        ([], 0, ""),
        (429, 429, ""),
        (True, 1, ""),
    ],
)
def test_error_code_and_message_are_read_from_any_error_format(
    error: object, code: int, words: str
):
    assert parse_error_body(error) == JsonRpcErrorBody(code, words)


def test_excerpt_contains_only_the_text_of_an_html_page():
    page = b"<html><style>p {x: y}</style><title>Access denied</title><p>by us</p></html>"

    assert extract_body_excerpt(page) == "Access denied by us"


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        (b'{"id":5,"result":[{"a":1}]}', True),
        (b'[{"id":5,"result":"0x1"}]', True),
        (b'{"id":4,"result":[{"a":1}]}', False),
        (b"[7]", False),
        (b'{"id":5,"resu', False),
    ],
)
def test_response_to_another_request_is_recognised(body: bytes, *, is_one: bool):
    assert is_response_to_other_request(body, {4}) is is_one


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        (b"", True),
        (b"[", True),
        (b'{"id":1,"result":"0x1', True),
        (b'{"id":1,"result":[{"a":1}', True),
        (b'[{"id":1,"result":"a]}', True),
        (b'{"id":1,"result":"\\"}', True),
        (b'{"id":1,"result":"}"}', False),
        (b'{"id":1,"result":"[\\"["}\n', False),
        (b'{"id":1,,"result":2}', False),
        (b"<html>{", False),
    ],
)
def test_truncated_json_is_distinguished_from_malformed_json(body: bytes, *, is_one: bool):
    assert is_truncated_json(body) is is_one
