"""Selects the cells: a dozen for the quick suite, some hundreds for the slow one, or all."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from devnet.fakechain.faults.forging import Depth
from tests.faults.lies.cells import (
    Cell,
    EndpointSet,
    Headers,
    Place,
    Timing,
    list_depths,
    list_lies,
)

PROFILES = ("crynux-vss", "reference")
# Lies that an endpoint tells only some of the time.
_UNSTEADY_LIES = ("omitted", "data", "time")
_UNSTEADY_DEPTHS = (Depth.ANSWERS, Depth.RECEIPTS, Depth.HEADERS)


def list_all_cells(seed: int = 1) -> Iterator[Cell]:
    """Yield every cell on the chain of this seed; there are some thousands."""
    for profile in PROFILES:
        for place in Place:
            yield from _list_cells(profile, place, seed)
            yield from _list_cells_of_two_liars(profile, place, seed)
        yield from _list_unsteady_cells(profile, seed)


def list_bounded_cells() -> list[Cell]:
    """Return every lie at every depth with every set of endpoints, each for one place.

    The place is drawn once, and so is the profile if the lie is possible in both.
    """
    chance = Random(12)  # noqa: S311 - repeatable, no secret
    drawn = []
    for cell in _list_cells("crynux-vss", Place.EARLY, 1):
        if cell.headers in {Headers.TRUE, Headers.ZERO_BLOOMS} or chance.random() < _SHARE:
            exists_in_both = cell.lie in list_lies("reference") and cell.depth in list_depths(
                cell.lie, "reference"
            )
            profile = "reference" if exists_in_both else "crynux-vss"
            placed_cell = replace(cell, place=chance.choice(list(Place)))
            drawn.append(replace(placed_cell, profile=chance.choice([profile, "crynux-vss"])))
    unsteady = [cell for cell in _list_unsteady_cells("crynux-vss", 1) if chance.random() < _SHARE]
    return [*drawn, *unsteady, *_draw_cells_of_two_liars()]


def _draw_cells_of_two_liars() -> list[Cell]:
    """Return every lie of two liars at every depth, each for one place and one profile."""
    chance = Random(13)  # noqa: S311 - repeatable, no secret
    places = list(Place)
    return [
        replace(cell, place=chance.choice(places))
        for cell in _list_cells_of_two_liars("crynux-vss", Place.EARLY, 1)
        if cell.headers is Headers.TRUE or chance.random() < _SHARE
    ]


# The share of cells with worse headers, or with a liar that lies only some of the time.
_SHARE = 0.25


def list_quick_cells() -> list[Cell]:
    """Return the dozen cells that the quick suite runs."""
    first, true = EndpointSet.FIRST, Headers.TRUE
    blind = Headers.WORTHLESS
    return [
        Cell("honest", EndpointSet.ALONE, true),
        Cell("honest", EndpointSet.FIRST, blind, profile="reference"),
        Cell("omitted", first, true),
        Cell("emptied", first, true, Depth.BLOCKS, profile="reference"),
        Cell("invented", EndpointSet.ALONE, true, Depth.RECEIPTS),
        Cell("data", first, blind, place=Place.ALL),
        Cell("value", first, true, place=Place.LATE),
        Cell("status", EndpointSet.ALONE, true, place=Place.ALL),
        Cell("from", first, true),
        Cell("time", EndpointSet.ALONE, true, Depth.HEADERS),
        Cell("index", first, true, Depth.CHAIN, Place.HEAD),
        Cell("cap 2", EndpointSet.SECOND, Headers.ZERO_BLOOMS),
        Cell("invented", EndpointSet.OUTNUMBERED, true, Depth.RECEIPTS),
        Cell("time", EndpointSet.OUTNUMBERED, true, Depth.HEADERS),
    ]


def _list_cells(profile: str, place: Place, seed: int) -> Iterator[Cell]:
    for lie in list_lies(profile):
        for depth in list_depths(lie, profile):
            for headers in Headers:
                for endpoint_set in (EndpointSet.ALONE, EndpointSet.FIRST, EndpointSet.SECOND):
                    yield Cell(lie, endpoint_set, headers, depth, place, profile, seed=seed)


def _list_cells_of_two_liars(profile: str, place: Place, seed: int) -> Iterator[Cell]:
    """Yield the lies of two liars while the honest endpoint is silent, and while it responds.

    A whole forged chain is left out: two providers that show the same chain are believed, which is
    the limit of the guarantee (docs/explanation/reorgs.md#confirmed-by-a-second-provider).
    """
    for endpoint_set in (EndpointSet.OUTNUMBERED, EndpointSet.MAJORITY):
        for lie in list_lies(profile):
            for depth in list_depths(lie, profile):
                for headers in Headers:
                    if depth is not Depth.CHAIN:
                        yield Cell(lie, endpoint_set, headers, depth, place, profile, seed=seed)


def _list_unsteady_cells(profile: str, seed: int) -> Iterator[Cell]:
    always = [cell for cell in _list_cells(profile, Place.ALL, seed) if cell.lie in _UNSTEADY_LIES]
    for timing in (Timing.AT_FIRST, Timing.LATER, Timing.EVERY_SECOND):
        for cell in always:
            if cell.depth in _UNSTEADY_DEPTHS:
                yield replace(cell, timing=timing)
