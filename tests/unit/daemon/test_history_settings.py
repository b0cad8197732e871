"""Who prepares history: the daemon itself, unless workers are asked for."""

import pytest
from pydantic import ValidationError

from oracle.daemon.config.chain_section import HistorySection, worker_count


def test_the_daemon_prepares_history_itself_where_nothing_is_said():
    assert worker_count(HistorySection()) == 0


def test_workers_are_as_many_as_the_settings_say():
    assert worker_count(HistorySection(executor="processes", workers=3)) == 3


def test_on_whatever_machine_there_is_at_least_one_worker_where_they_are_asked_for():
    assert worker_count(HistorySection(executor="processes")) >= 1


@pytest.mark.parametrize("said", [{"workers": 2}, {"stage": "segments"}])
def test_what_is_said_of_workers_is_refused_where_there_are_none(said):
    with pytest.raises(ValidationError, match="need executor"):
        HistorySection.model_validate(said)
