"""The settings of a gateway: errors name the setting, and never show a secret."""

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gateway.gateway_config import (
    TOKEN_VARIABLE,
    GatewayConfig,
    GatewaySection,
    read_gateway_config,
    read_token,
)
from oracle.errors import InputError
from oracle.systems.pocket.parameters import ARTICLE, PORTAL_API_HEAD
from oracle.telemetry.safe_text import redact_secrets
from reference.source_comments import read_field_comments
from tests.unit.gateway.relays import T0, build_failure, build_request, selector

TOKEN = "a-token-that-nobody-sees"  # noqa: S105  made for this test
COMPLETE_CONFIG = """
[database]
url = "sqlite:///gateway.db"
[checks.0021]
chain_id = 1
urls = { a = "https://a.example/rpc" }
"""
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "run-a-gateway.md"


def write_config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_omitted_policy_settings_default_to_the_article_profile(tmp_path: Path):
    config = read_gateway_config(write_config(tmp_path, COMPLETE_CONFIG))
    assert config.policy.rules.params == ARTICLE
    assert config.build_check_rules("0021").allowance == 5
    assert config.gateway.body_bytes == 1024 * 1024


def test_portal_api_head_is_selected_by_the_profile_setting(tmp_path: Path):
    text = COMPLETE_CONFIG + '[policy]\nprofile = "portal_api_head"\n'
    assert read_gateway_config(write_config(tmp_path, text)).policy.rules.params == PORTAL_API_HEAD


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "database"),
        (COMPLETE_CONFIG + "[more]\n", "more"),
        (COMPLETE_CONFIG + "[gateway]\nport = 70000\n", "gateway.port"),
        (COMPLETE_CONFIG + "[gateway]\ntoken = 'x'\n", "gateway.token"),
        (COMPLETE_CONFIG + "[gateway]\ncertificate = 'x'\n", "gateway.certificate"),
        (COMPLETE_CONFIG + "[policy]\nwindow_ms = 0\n", "policy.window_ms"),
        (COMPLETE_CONFIG + "[policy]\nout_cap_ms = 1\n", "policy.out_cap_ms"),
        (COMPLETE_CONFIG.replace("https", "file"), "checks.0021.urls"),
        (COMPLETE_CONFIG + "stake = 'daemon'\n", "checks.0021.stake"),
        (
            COMPLETE_CONFIG + "[stakes]\ndatabase_url = 'sqlite:///gateway.db'\n",
            "stakes.database_url",
        ),
        ("[", "invalid TOML"),
    ],
)
def test_configuration_error_names_the_setting(tmp_path: Path, text: str, named: str):
    with pytest.raises(InputError, match=named):
        read_gateway_config(write_config(tmp_path, text))


def test_world_readable_file_with_key_in_url_is_rejected(tmp_path: Path):
    path = write_config(tmp_path, COMPLETE_CONFIG.replace("/rpc", f"/{TOKEN}"))
    read_gateway_config(path)
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        read_gateway_config(path)


def test_secrets_are_hidden_in_repr_and_log(tmp_path: Path):
    text = COMPLETE_CONFIG.replace("/rpc", f"/{TOKEN}").replace(
        "sqlite:///gateway.db", f"postgresql://me:{TOKEN}@db/gateway"
    )
    config = read_gateway_config(write_config(tmp_path, text))
    read_guide_block = f"{config!r} {config} {config.checks!r} {config.database!r}"
    assert TOKEN not in read_guide_block
    assert TOKEN not in redact_secrets(f"it said {TOKEN} there")


def test_token_file_takes_precedence_over_environment_variable(tmp_path: Path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    assert read_token(GatewaySection(token_file=path), {TOKEN_VARIABLE: "x" * 20}) == TOKEN
    assert read_token(GatewaySection(), {TOKEN_VARIABLE: "y" * 20}) == "y" * 20
    assert TOKEN not in redact_secrets(TOKEN)


@pytest.mark.parametrize("message", ["", "short", "fifteen letters", "a b" * 10, "\u00e9" * 20])
def test_error_for_invalid_token_omits_the_token(message: str):
    with pytest.raises(InputError, match=TOKEN_VARIABLE) as error:
        read_token(GatewaySection(), {TOKEN_VARIABLE: message})
    assert not message or message not in str(error.value)


def test_world_readable_token_file_is_rejected(tmp_path: Path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        read_token(GatewaySection(token_file=path), {})


def read_guide_block(language: str) -> str:
    """Return the content of the guide's block in this language."""
    blocks = re.findall(r"(?:^    .*\n|^\n)+", GUIDE.read_text("utf-8"), re.MULTILINE)
    return next(dedent(block) for block in blocks if block.strip().startswith(language))


def test_documented_settings_are_valid(tmp_path: Path):
    config = read_gateway_config(write_config(tmp_path, read_guide_block("[gateway]")))
    assert config.policy == type(config.policy)()
    assert set(config.checks["0021"].urls) == {"node-1", "node-2"}


def test_example_program_in_documentation_selects_node(capsys: pytest.CaptureFixture[str]):
    exec(read_guide_block("from gateway"), {})  # noqa: S102  of our own page
    assert capsys.readouterr().out.strip() in {"['node-1']", "['node-2']"}


def test_example_function_in_documentation_reproduces_draw():
    names: dict[str, Any] = {}
    exec(read_guide_block("from hashlib"), names)  # noqa: S102  of our own page
    session_selector = selector()
    session_selector.record_outcomes([build_failure("node-0")], T0)
    for _ in range(20):
        done = session_selector.select_nodes(build_request(), T0)
        proof = {
            "commitment": done.epoch.commitment,
            "session": "s",
            "counter": done.counter,
            "values": [value.hex() for value in done.values],
            "chances": done.ranking.chances,
        }
        assert names["node"](proof, done.epoch.seed) == done.nodes[0]


def test_every_setting_is_documented():
    guide = GUIDE.read_text("utf-8")
    for name, field in GatewayConfig.model_fields.items():
        kind = field.annotation
        if name == "checks":
            kind = GatewayConfig.__annotations__["checks"].__args__[1]
        comment_by_field = {
            setting: comment
            for setting, comment in read_field_comments(kind).items()  # type: ignore[arg-type]
            if setting in kind.model_fields  # type: ignore[union-attr]
        }
        assert all(len(about.split()) >= 3 for about in comment_by_field.values()), (
            comment_by_field
        )
        assert f"[{name}" in guide
