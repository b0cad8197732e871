"""The contrast of the style sheet's colours is sufficient in both themes."""

import re

import pytest

from oracle.daemon.web.pages.page_frame import STATE_SIGNS, STATIC

CSS = (STATIC / "pages.css").read_text("utf-8")
# WCAG 2.2 AA, for text and for graphics.
TEXT, DRAWN = 4.5, 3.0
GROUNDS = ("bg", "card", "soft")
TEXTS = [("ink", TEXT), ("ink2", TEXT), ("link", TEXT)]
FILLS = ["selectable", "recovering", "excluded", "out", "away", "long-term", "reliability"]


def tokens(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))


def themes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r"(:root[^{]*)\{([^}]*)\}", CSS)
    light, preferred_dark, chosen = (tokens(block) for _, block in blocks)
    assert preferred_dark == chosen, "the dark that the system asks for is the one that is chosen"
    return {"light": light, "dark": chosen}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: str, other_colour: str) -> float:
    darker, brighter = sorted((luminance(colour), luminance(other_colour)))
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_contrast_is_sufficient_on_every_background(theme):
    colours = themes()[theme]
    faint = [
        (name, ground)
        for name, min_contrast in TEXTS
        for ground in GROUNDS
        if contrast(colours[name], colours[ground]) < min_contrast
    ]
    assert faint == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("state", ["selectable", "recovering", "excluded", "out", "away"])
def test_state_label_contrast_is_sufficient_on_its_chip(theme, state):
    colours = themes()[theme]
    assert contrast(colours[f"{state}-text"], colours[f"{state}-ground"]) >= TEXT


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_graphics_contrast_is_sufficient_on_card(theme):
    colours = themes()[theme]
    assert [name for name in FILLS if contrast(colours[name], colours["card"]) < DRAWN] == []


def test_every_state_has_symbol_and_colour_class():
    for state in STATE_SIGNS:
        assert f".chip.{state}" in CSS
        assert f".fill-{state}" in CSS
