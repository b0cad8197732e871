"""A new connection is always accepted; at the limit the one that waited longest is closed."""

from hypothesis import given, strategies as st

from oracle.daemon.web.acceptor import ConnectionTable
from tests.support.examples import examples

ARRIVALS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60)


@examples(200)
@given(ARRIVALS, st.integers(1, 8), st.integers(1, 8))
def test_connection_table_stays_within_limits_and_keeps_newest(
    arrivals, max_connections, most_per_address
):
    table = ConnectionTable[int](max_connections, most_per_address)
    open_connections: dict[int, str] = {}
    for number, (network, is_closed) in enumerate(arrivals):
        evicted = table.add_connection(number, str(network), float(number))
        if evicted is not None:
            oldest, reason = evicted
            is_address_limit = reason == "address"
            evictable = [
                connection
                for connection in open_connections
                if not is_address_limit or open_connections[connection] == str(network)
            ]
            assert oldest == min(evictable)
            del open_connections[oldest]
        open_connections[number] = str(network)
        assert number in table
        assert list(table) == sorted(open_connections)
        assert len(open_connections) <= max_connections
        assert all(
            list(open_connections.values()).count(address) <= most_per_address
            for address in open_connections.values()
        )
        if is_closed:
            assert table.remove_connection(number)
            assert not table.remove_connection(number)
            del open_connections[number]


def test_oldest_connection_is_evicted_at_the_total_limit():
    table = ConnectionTable[str](3, 2)
    for at, address in enumerate("abc"):
        assert table.add_connection(address, address, at) is None
    assert table.add_connection("d", "d", 3.0) == ("a", "total")
    assert table.add_connection("e", "e", 4.0) == ("b", "total")


def test_connections_of_most_connected_address_are_evicted():
    table = ConnectionTable[int](5, 9)
    table.add_connection(0, "alone", 0.0)
    for number in range(1, 50):
        table.add_connection(number, "crowded", float(number))
    assert list(table) == [0, 46, 47, 48, 49]


def test_expired_connections_are_returned_once():
    table = ConnectionTable[int](9, 9)
    for number in range(5):
        table.add_connection(number, "here", float(number))
    assert table.remove_expired_connections(2.0) == [0, 1, 2]
    assert table.remove_expired_connections(2.0) == []
    assert list(table) == [3, 4]


def test_oldest_half_of_connections_is_removed_on_demand():
    table = ConnectionTable[int](9, 9)
    for number in range(5):
        table.add_connection(number, "here", float(number))
    assert table.remove_oldest_half() == [0, 1, 2]
    assert table.remove_oldest_half() == [3]
    assert table.remove_oldest_half() == [4]
    assert table.remove_oldest_half() == []
