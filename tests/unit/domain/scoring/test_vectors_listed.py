"""Every vector is run by a test, or listed with the reason why not."""

from fnmatch import fnmatchcase

from tests.support.vectors import (
    RUN,
    is_listed,
    list_not_applicable,
    list_superseded,
    load_entries,
)
from tests.unit.domain.scoring import (
    test_vectors_crynux_docs,
    test_vectors_groups,
    test_vectors_pools,
    test_vectors_reliability,
    test_vectors_rules,
    test_vectors_seed2,
    test_verdicts,
)
from tests.unit.signing import test_typed_data_vectors
from tests.unit.systems import test_queueing_statements
from tests.unit.systems.crynux import test_draw_vectors, test_vectors_queue, test_vectors_selection
from tests.unit.systems.legacy import test_vectors_legacy
from tests.unit.systems.pocket import (
    test_vectors_article,
    test_vectors_ranking,
    test_vectors_sequences,
)

# Importing them fills RUN.
MODULES = (
    test_typed_data_vectors,
    test_vectors_crynux_docs,
    test_vectors_groups,
    test_vectors_pools,
    test_vectors_reliability,
    test_vectors_rules,
    test_vectors_seed2,
    test_verdicts,
    test_vectors_article,
    test_vectors_ranking,
    test_vectors_sequences,
    test_draw_vectors,
    test_vectors_queue,
    test_vectors_selection,
    test_queueing_statements,
    test_vectors_legacy,
)


def test_every_vector_is_run_or_listed():
    assert MODULES
    forgotten = [
        name
        for name in load_entries()
        if not is_listed(name) and not any(name.startswith(section) for section in RUN)
    ]
    assert forgotten == []


def test_every_listed_pattern_matches_a_vector_and_states_a_reason():
    names = list(load_entries())
    for pattern, reason in list_not_applicable().items():
        assert any(fnmatchcase(name, pattern) for name in names), pattern
        assert len(reason) > 10, pattern


def test_at_least_ninety_vectors_are_run():
    run = [name for name in load_entries() if not is_listed(name)]
    assert len(run) >= 90


def test_superseded_vector_and_its_replacement_are_both_run():
    names = [name for name in load_entries() if not is_listed(name)]
    rows = list_superseded()
    assert rows
    for pattern in (*rows, *rows.values()):
        (entry_name,) = (name for name in names if fnmatchcase(name, pattern))
        assert any(entry_name.startswith(section) for section in RUN), entry_name
