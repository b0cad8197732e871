"""The page `/verify` is a single file, whose policy forbids loading and sending anything else."""

import base64
import hashlib
import re

from oracle.daemon.web.pages.verify_page import SCRIPTS, build_verify_page
from tests.support.api import IndexedHistory


def hash_content(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def find_content(page: str, element: str) -> str:
    (content,) = re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
    return str(content)


def test_served_verify_page_equals_released_file(store):
    response = IndexedHistory(store).client().get("/verify")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert response.text == build_verify_page()


def test_csp_allows_only_scripts_and_styles_of_file(store):
    page = build_verify_page()
    policy = IndexedHistory(store).client().get("/verify").headers["content-security-policy"]
    in_page = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy == f"{in_page[0]}; frame-ancestors 'none'"
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == f"'{hash_content(find_content(page, 'script'))}'"
    assert directives["style-src"] == f"'{hash_content(find_content(page, 'style'))}'"
    assert directives["form-action"] == directives["base-uri"] == "'none'"


def test_verify_page_does_not_refer_to_other_files():
    markup = re.sub(r"<(script|style)>.*?</\1>", "", build_verify_page(), flags=re.DOTALL)
    assert re.findall(r"\b(?:src|href|srcset|action)=", markup) == []
    assert "@import" not in find_content(build_verify_page(), "style")
    assert "url(" not in find_content(build_verify_page(), "style")


def test_verify_page_contains_each_script_once():
    script = find_content(build_verify_page(), "script")
    names = re.findall(r"^(?:async )?function (\w+)", script, re.MULTILINE)
    names += re.findall(r"^(?:const|let|class) (\w+)", script, re.MULTILINE)
    assert len(names) > 100
    assert sorted(set(names)) == sorted(names)
    assert len(SCRIPTS) == len(set(SCRIPTS))
