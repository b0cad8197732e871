"""The rule of incidents as documented: every end is tested against all ends."""

from math import comb

from oracle.domain.blocks import Position
from oracle.domain.ids import Address
from oracle.domain.incidents import Incident

Place = tuple[Position, int]
Row = tuple[int, Address, Address, bool]


def find_incidents_naively(
    ends: list[tuple[Position, int, Address, Address, bool]],
) -> dict[int, Incident]:
    """Return all incidents, by number; an end is position, time, creator, node, is_timeout."""
    found = dict[int, Incident]()
    rows = list[Row]()
    is_open = dict[Address | None, int]()
    for at, time, creator, node, is_timeout in ends:
        minute = max([time // 60, *(row[0] for row in rows)])
        for key, number in list(is_open.items()):
            if found[number].until // 60 <= minute - 15:
                found[number] = found[number]._replace(over_at=at, over_time=time)
                del is_open[key]
        rows.append((minute, creator, node, is_timeout))
        if not is_timeout:
            continue
        window = [row for row in rows if row[0] > minute - 15]
        day = [row for row in rows if minute - 15 - 1440 < row[0] <= minute - 15]
        for key in (creator, None):
            failed, timeouts = count_failures(window, key)
            held_now = key in is_open and found[is_open[key]].until // 60 == minute
            if not held_now and not is_incident(window, day, key):
                continue
            if key not in is_open:
                number = is_open[key] = len(found) + 1
                since = 60 * (minute - 14)
                found[number] = Incident(number, key, at, time, since, 0, 0, 0)
            number = is_open[key]
            found[number] = found[number]._replace(
                until=60 * minute + 59,
                nodes=max(found[number].nodes, failed),
                timeouts=max(found[number].timeouts, timeouts),
            )
    return found


def count_failures(window: list[Row], key: Address | None) -> tuple[int, int]:
    timeouts = [row for row in window if row[3] and key in (None, row[1])]
    return len({row[2] for row in timeouts}), len(timeouts)


def is_incident(window: list[Row], day: list[Row], key: Address | None) -> bool:
    rows = [row for row in window if key in (None, row[1])]
    nodes = {row[2] for row in rows}
    failed = {row[2] for row in rows if row[3]}
    if key is None:
        timeouts_of = {
            creator: sum(row[3] for row in rows if row[1] == creator)
            for creator in {row[1] for row in rows}
        }
        largest = max(timeouts_of, key=lambda creator: (timeouts_of[creator], creator))
        failed = {row[2] for row in rows if row[3] and row[1] != largest}
        fits = 4 * len(failed) >= len(nodes) and sum(map(bool, timeouts_of.values())) >= 3
    else:
        answered = {row[2] for row in window if not row[3] and row[1] != key}
        fits = 2 * sum(row[3] for row in rows) >= len(rows) and 3 * len(
            failed & answered
        ) >= 2 * len(failed)
    missing = max(0, 500 - len(day))
    whole = len(day) + missing
    usual = max(sum(row[3] for row in day) + missing // 10, whole // 500)
    busiest = max(sum(row[2] == node for row in rows) for node in nodes)
    chance = comb(len(nodes), len(failed)) * (busiest * usual) ** len(failed)
    return fits and len(failed) >= 3 and chance * 10**9 < whole ** len(failed)
