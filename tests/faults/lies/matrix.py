"""Selects the cells: a dozen for the quick suite, some hundreds for the slow one, or all."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from devnet.fakechain.faults.forging import Depth
from tests.faults.lies.cells import Cell, Company, Headers, Mood, Place, depths, lies

PROFILES = ("crynux-vss", "reference")
# Lies that an endpoint tells now and then.
_MOODY = ("omitted", "data", "time")
_MOODY_DEPTHS = (Depth.ANSWERS, Depth.RECEIPTS, Depth.HEADERS)


def list_all_cells(seed: int = 1) -> Iterator[Cell]:
    """Yield every cell on the chain of this seed; there are some thousands."""
    for profile in PROFILES:
        for place in Place:
            yield from _of(profile, place, seed)
            yield from _outnumbered(profile, place, seed)
        yield from _moody(profile, seed)


def list_bounded_cells() -> list[Cell]:
    """Return every lie at every depth with every set of endpoints, each for one place.

    The place is drawn once, and so is the profile if the lie is possible in both.
    """
    chance = Random(12)  # noqa: S311 - repeatable, no secret
    drawn = []
    for cell in _of("crynux-vss", Place.EARLY, 1):
        if cell.headers in {Headers.TRUE, Headers.ZERO_BLOOMS} or chance.random() < _SHARE:
            is_told_in_both = cell.lie in lies("reference") and cell.depth in depths(
                cell.lie, "reference"
            )
            profile = "reference" if is_told_in_both else "crynux-vss"
            placed_cell = replace(cell, place=chance.choice(list(Place)))
            drawn.append(replace(placed_cell, profile=chance.choice([profile, "crynux-vss"])))
    moody = [cell for cell in _moody("crynux-vss", 1) if chance.random() < _SHARE]
    return [*drawn, *moody, *_bounded_outnumbered()]


def _bounded_outnumbered() -> list[Cell]:
    """Return every lie of two liars at every depth, each for one place and one profile."""
    chance = Random(13)  # noqa: S311 - repeatable, no secret
    places = list(Place)
    return [
        replace(cell, place=chance.choice(places))
        for cell in _outnumbered("crynux-vss", Place.EARLY, 1)
        if cell.headers is Headers.TRUE or chance.random() < _SHARE
    ]


# Of the cells whose headers are worth less, or whose liar lies now and then.
_SHARE = 0.25


def list_quick_cells() -> list[Cell]:
    """Return the dozen cells that the quick suite runs."""
    first, true = Company.FIRST, Headers.TRUE
    blind = Headers.WORTHLESS
    return [
        Cell("honest", Company.ALONE, true),
        Cell("honest", Company.FIRST, blind, profile="reference"),
        Cell("omitted", first, true),
        Cell("emptied", first, true, Depth.BLOCKS, profile="reference"),
        Cell("invented", Company.ALONE, true, Depth.RECEIPTS),
        Cell("data", first, blind, place=Place.ALL),
        Cell("value", first, true, place=Place.LATE),
        Cell("status", Company.ALONE, true, place=Place.ALL),
        Cell("from", first, true),
        Cell("time", Company.ALONE, true, Depth.HEADERS),
        Cell("index", first, true, Depth.CHAIN, Place.HEAD),
        Cell("cap 2", Company.SECOND, Headers.ZERO_BLOOMS),
        Cell("invented", Company.OUTNUMBERED, true, Depth.RECEIPTS),
        Cell("time", Company.OUTNUMBERED, true, Depth.HEADERS),
    ]


def _of(profile: str, place: Place, seed: int) -> Iterator[Cell]:
    for lie in lies(profile):
        for depth in depths(lie, profile):
            for headers in Headers:
                for company in (Company.ALONE, Company.FIRST, Company.SECOND):
                    yield Cell(lie, company, headers, depth, place, profile, seed=seed)


def _outnumbered(profile: str, place: Place, seed: int) -> Iterator[Cell]:
    """Yield the lies of two liars while the honest endpoint is silent.

    A whole forged chain is left out: two providers that show the same chain are believed, which is
    the limit of the guarantee (docs/explanation/reorgs.md#confirmed-by-a-second-provider).
    """
    for lie in lies(profile):
        for depth in depths(lie, profile):
            for headers in Headers:
                if depth is not Depth.CHAIN:
                    company = Company.OUTNUMBERED
                    yield Cell(lie, company, headers, depth, place, profile, seed=seed)


def _moody(profile: str, seed: int) -> Iterator[Cell]:
    always = [cell for cell in _of(profile, Place.ALL, seed) if cell.lie in _MOODY]
    for mood in (Mood.AT_FIRST, Mood.LATER, Mood.EVERY_SECOND):
        for cell in always:
            if cell.depth in _MOODY_DEPTHS:
                yield replace(cell, mood=mood)
