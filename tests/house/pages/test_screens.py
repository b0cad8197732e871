"""The screenshots of the pages are current, small, and shown."""

from tests.browser.screens import DIGEST, PICTURES, SCREENS, digest

ROOT = SCREENS.parents[1]
MOST_BYTES = 120_000
SHOWN_BY = ("README.md", "docs/explanation/pages.md", "docs/how-to/use-the-scores.md")


def test_pictures_match_current_pages():
    assert DIGEST.read_text("utf-8").strip() == digest(), "make screens"


def test_every_picture_is_a_small_png():
    for name in PICTURES:
        content = (SCREENS / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG"), name
        assert len(content) < MOST_BYTES, (name, len(content))


def test_every_picture_is_shown_on_a_page():
    texts = [(ROOT / page).read_text("utf-8") for page in SHOWN_BY]
    for name in PICTURES:
        assert any(f"screens/{name}.png" in text for text in texts), name
    lying = {path.name for path in SCREENS.iterdir()} - {DIGEST.name}
    assert lying == {f"{name}.png" for name in PICTURES}
