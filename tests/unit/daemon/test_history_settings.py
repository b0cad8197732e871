"""Who prepares history: workers where there is a core for one, unless somebody is asked for."""

import pytest
from pydantic import ValidationError

from oracle.daemon.config import chain_section
from oracle.daemon.config.chain_section import HistorySection, resolve_worker_count


@pytest.mark.parametrize(("cores", "workers"), [(1, 0), (2, 2), (3, 3), (8, 3)])
def test_where_nothing_is_said_there_is_a_worker_for_every_core_and_three_at_most(
    cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(chain_section, "usable_processors", lambda: cores)
    assert resolve_worker_count(HistorySection()) == workers


def test_the_daemon_prepares_history_itself_where_it_is_told_to():
    assert resolve_worker_count(HistorySection(executor="inline")) == 0


def test_workers_are_as_many_as_the_settings_say():
    assert resolve_worker_count(HistorySection(executor="processes", workers=3)) == 3


def test_on_whatever_machine_there_is_at_least_one_worker_where_they_are_asked_for():
    assert resolve_worker_count(HistorySection(executor="processes")) >= 1


@pytest.mark.parametrize("said", [{"workers": 2}, {"stage": "segments"}])
def test_what_is_said_of_workers_is_refused_where_there_are_none(said):
    with pytest.raises(ValidationError, match="there are no workers"):
        HistorySection.model_validate({"executor": "inline", **said})


def test_a_cluster_has_a_few_workers_where_nothing_is_said():
    told = HistorySection(executor="dask", scheduler="tcp://10.0.0.7:8786")
    assert resolve_worker_count(told) == 3


@pytest.mark.parametrize(
    "said",
    [
        {"executor": "dask"},
        {"executor": "processes", "scheduler": "tcp://10.0.0.7:8786"},
        {"executor": "dask", "scheduler": "tcp://user:word@10.0.0.7:8786"},
    ],
)
def test_a_cluster_needs_a_scheduler_by_a_bare_address_and_nobody_else_does(said):
    with pytest.raises(ValidationError, match="scheduler"):
        HistorySection.model_validate(said)
