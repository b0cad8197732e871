"""Addresses are secret settings; output of settings shows no secret one."""

import re
from typing import get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gateway.gateway_config import GatewayConfig
from oracle.daemon.config.loader import Config
from oracle.daemon.config.redaction import (
    iter_secret_settings,
    iter_secret_url_parts,
    iter_secret_values,
)
from oracle.daemon.config.sections import Section
from reference.settings_page import iter_settings

NAMES = [one.name for one in iter_settings()]


def test_every_setting_with_url_like_name_is_secret():
    addresses = re.compile(r"(^|_)(urls?|endpoints?|websocket|peers|providers)$")
    named = {name for name in NAMES if addresses.search(name.partition(".")[2])}
    assert named == {f"{section}.{name}" for section, name in iter_secret_settings(Config)}


@pytest.mark.parametrize("config", [Config, GatewayConfig])
def test_secrets_are_declared_only_by_type(config: type[BaseModel]):
    sections = [kind for field in config.model_fields.values() for kind in kinds_of(field)]
    hidden = [
        (section.__name__, name)
        for section in sections
        for name, field in section.model_fields.items()
        if not field.repr
    ]
    assert hidden == []


def kinds_of(field: FieldInfo) -> list[type[Section]]:
    kinds = (field.annotation, *get_args(field.annotation))
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)]


def test_every_url_in_gateway_config_is_secret():
    config = GatewayConfig.model_validate(
        {
            "database": {"url": f"postgresql://me:{TOKEN}@db/gateway"},
            "stakes": {"database_url": f"postgresql://you:{TOKEN}@db/oracle"},
            "checks": {"eth": {"chain_id": 1, "urls": {"node-a": f"https://h/{TOKEN}"}}},
        }
    )
    assert list(iter_secret_values(config)) == [
        f"postgresql://me:{TOKEN}@db/gateway",
        f"postgresql://you:{TOKEN}@db/oracle",
        f"https://h/{TOKEN}",
    ]
    assert TOKEN not in f"{config.database!r} {config.stakes!r} {config.checks!r}"


def test_no_setting_can_hold_a_key_or_password():
    named = {name for name in NAMES if name.startswith("keys.")}
    held = {"password", "private_key", "secret", "mnemonic", "token"}
    assert not {name for name in named if name.split("_", 1)[-1] in held}


TOKEN = "a-token-that-nobody-sees"  # noqa: S105  made for this test
WRITTEN = {
    "database": {"url": f"postgresql://me:{TOKEN}@db/oracle"},
    "chain": {
        "id": 1,
        "endpoints": [f"https://host/{TOKEN}", f"https://{TOKEN.lower()}.example/"],
        "providers": {f"{TOKEN.lower()}.example": "one"},
        "websocket": f"wss://host/{TOKEN}",
    },
    "network": {"contracts": {"TaskNetwork": "0x" + 40 * "1"}},
    "keys": {
        f"{role}_{name}": told
        for role in ("signer", "transmitter", "dispatcher")
        for name, told in (("remote_url", f"https://h/{TOKEN}"), ("address", "0x" + 40 * "2"))
    }
    | {"kms_endpoint": f"https://h/{TOKEN}"},
    "reporters": {"peers": [f"https://h/{TOKEN}"]},
    "feed": {"url": f"https://h/{TOKEN}", "compare_url": f"https://g/{TOKEN}"},
    "notify": [{"name": "us", "url": f"https://h/{TOKEN}", "secret_file": "a-file"}],
    "subscriptions": {"mail_url": f"mailtos://me:{TOKEN}@h"},
    "tracing": {"endpoint": f"https://h/{TOKEN}"},
}


def test_settings_repr_shows_no_secret():
    config = Config.model_validate(WRITTEN)
    for section, setting in iter_secret_settings(Config):
        configured = getattr(config, section)
        (section_config,) = configured if isinstance(configured, tuple) else [configured]
        assert TOKEN.lower() in str(getattr(section_config, setting)).lower(), setting
    assert TOKEN.lower() not in f"{config!r} {config}".lower()
    for secret in iter_secret_values(config):
        assert TOKEN.lower() in secret.lower()
    text_by_section = {section: repr(getattr(config, section)).lower() for section in WRITTEN}
    assert not [section for section, text in text_by_section.items() if TOKEN.lower() in text]


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://host/v3/0123456789abcdef", {"0123456789abcdef"}),
        ("https://host/v3/short", set()),
        ("https://me:pass%21word@host/", {"pass%21word", "pass!word"}),
        ("https://host/?apikey=0123456789abcdef0", {"0123456789abcdef0"}),
        ("sqlite:////a/folder-that-is-no-secret/oracle.sqlite", set()),
        ("https://[", set()),
        ("https://t0ken-alone@host/", {"t0ken-alone"}),
        ("https://t0ken%21alone:@host/", {"t0ken%21alone", "t0ken!alone"}),
        ("wss://0123456789abcdef:x@host/", {"0123456789abcdef"}),
        ("https://me@host/", set()),
        ("https://user:pass!word@host/", {"pass!word"}),
        ("https://0123456789abcdef.rpc.example/", {"0123456789abcdef"}),
        ("https://eth-0123456789abcdef.rpc.example/", {"0123456789abcdef"}),
        ("https://ethereum-mainnet-internal-service.example/", set()),
        ("https://ip-10-0-12-34.eu-central-1.compute.internal/", set()),
        ("postgresql://oracle_writer_of_2024@db/oracle", set()),
        ("postgresql://u@db/oracle?password=sh0rt!", {"sh0rt!"}),
    ],
)
def test_credential_parts_of_a_url_are_secret(url: str, parts: set[str]):
    assert set(iter_secret_url_parts([url])) == parts
