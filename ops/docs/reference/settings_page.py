"""Generates the page of settings, with their types, defaults and comments."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gateway.gateway_config import GatewayConfig
from oracle.daemon.config.loader import Config
from oracle.daemon.config.sections import Section
from reference.markdown import render_head, render_table
from reference.source_comments import read_field_comments

_ABOUT = """\
This page is for operators who configure the daemon or a gateway. It lists every setting with its
type, default and meaning.

You write settings in a TOML file, under their section; `config/example.toml` contains all of them.
The environment variable `QOS_ORACLE_<SECTION>__<KEY>` takes precedence over the file, for example
`QOS_ORACLE_LOG__FORMAT=json`. In a variable, a list is `a,b` and a table is JSON.
`QOS_ORACLE_CONFIG` is the path of the file if `--config` is not given. Unknown settings are
rejected.

The contract also stores the hash of the settings marked *part of the rules hash*. The daemon does
not publish if the hashes differ, so change the contract (`setRules`) first.
"""
_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the page.

    `about` is the comment above the setting, or "".
    """

    name: str
    type_text: str
    default: str
    about: str


def iter_settings() -> Iterator[Setting]:
    """Yield every setting of the daemon, in the order of sections and fields."""
    for section, field in Config.model_fields.items():
        # The settings of a list of sections, such as `[[notify]]`, are in the type of its items.
        value_type = next(iter(get_args(field.annotation)), field.annotation)
        yield from _iter_section_settings(section, value_type)


def iter_gateway_settings() -> Iterator[Setting]:
    """Yield every setting of a gateway.

    `[checks.<chain>]` stands for the section of any chain.
    """
    for section, field in GatewayConfig.model_fields.items():
        _, *arguments = get_args(field.annotation) or [None]
        if arguments:
            yield from _iter_section_settings(f"{section}.<chain>", arguments[0])
        else:
            yield from _iter_section_settings(section, field.annotation)


def _iter_section_settings(section: str, kind: object) -> Iterator[Setting]:
    if not isinstance(kind, type) or not issubclass(kind, Section):
        raise TypeError(f"[{section}]: not a subclass of Section")
    comments = _collect_comments(kind)
    for key, info in kind.model_fields.items():
        yield Setting(f"{section}.{key}", _format_type(info), _format_default(info), comments[key])


def _collect_comments(section: type[Section]) -> dict[str, str]:
    """Collect the comment above each setting of a section, including inherited settings."""
    comment_by_name: dict[str, str] = {}
    for kind in reversed(section.__mro__):
        if issubclass(kind, Section):
            comment_by_name |= read_field_comments(kind)
    return comment_by_name


def render_page() -> str:
    """Render the page of settings as Markdown."""
    page_parts = [
        render_head("Settings", "`oracle/daemon/config/`", about=_ABOUT),
        *_iter_section_tables(iter_settings()),
    ]
    page_parts.append(
        "## Settings of `qos-oracle gateway`\n\nThe gateway has a configuration file of its own.\n"
    )
    return "\n".join([*page_parts, *_iter_section_tables(iter_gateway_settings())])


def _iter_section_tables(settings: Iterator[Setting]) -> Iterator[str]:
    """Yield the heading and the table of each section."""
    for section, section_settings in groupby(
        settings, lambda setting: setting.name.rpartition(".")[0]
    ):
        rows = [
            (f"`{setting.name}`", setting.type_text, setting.default, setting.about)
            for setting in section_settings
        ]
        yield f"## [{section}]\n\n" + render_table(("setting", "type", "default", "meaning"), rows)


def _format_type(info: FieldInfo) -> str:
    type_parts = [_format_annotation(info.annotation)]
    for name, symbol in _BOUNDS.items():
        type_parts += [
            f"{symbol} {getattr(rule, name)}"
            for rule in info.metadata
            if getattr(rule, name, None) is not None
        ]
    return ", ".join(type_parts)


def _format_annotation(kind: object) -> str:
    origin = get_origin(kind)
    arguments = [argument for argument in get_args(kind) if argument is not type(None)]
    if origin is Literal:
        return ", ".join(f"`{argument}`" for argument in arguments)
    if origin is Annotated or (origin is not None and len(arguments) == 1):
        return _format_annotation(arguments[0])
    if origin in {tuple, list}:
        return "list"
    if origin is dict:
        return "table"
    name_by_type = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true, false",
        Path: "path",
    }
    return name_by_type.get(kind, "number") if isinstance(kind, type) else "text"


def _format_default(info: FieldInfo) -> str:
    if info.is_required():
        return "*required*"
    default_value = info.get_default(call_default_factory=True)
    if default_value is None or default_value is PydanticUndefined or default_value in ((), {}):
        return "none"
    if isinstance(default_value, bool):
        return f"`{str(default_value).lower()}`"
    return (
        f"`{default_value:_}`"
        if isinstance(default_value, int) and default_value >= 10**6
        else f"`{default_value}`"
    )
