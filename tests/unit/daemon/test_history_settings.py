"""Which processes prepare history: workers if there are enough cores, unless set otherwise."""

import pytest
from pydantic import ValidationError

from oracle.daemon.config import chain_section
from oracle.daemon.config.chain_section import HistorySection, resolve_worker_count


@pytest.mark.parametrize(("cores", "workers"), [(1, 0), (2, 2), (3, 3), (8, 3)])
def test_default_worker_count_grows_with_cores_up_to_three(
    cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(chain_section, "count_usable_processors", lambda: cores)
    assert resolve_worker_count(HistorySection()) == workers


def test_inline_executor_has_no_workers():
    assert resolve_worker_count(HistorySection(executor="inline")) == 0


def test_configured_worker_count_is_used():
    assert resolve_worker_count(HistorySection(executor="processes", workers=3)) == 3


def test_process_executor_has_at_least_one_worker():
    assert resolve_worker_count(HistorySection(executor="processes")) >= 1


@pytest.mark.parametrize("message", [{"workers": 2}, {"stage": "segments"}])
def test_inline_executor_rejects_settings_for_workers(message):
    with pytest.raises(ValidationError, match="has no workers"):
        HistorySection.model_validate({"executor": "inline", **message})


def test_dask_executor_has_three_workers_by_default():
    section = HistorySection(executor="dask", scheduler="tcp://10.0.0.7:8786")
    assert resolve_worker_count(section) == 3


@pytest.mark.parametrize(
    "message",
    [
        {"executor": "dask"},
        {"executor": "processes", "scheduler": "tcp://10.0.0.7:8786"},
        {"executor": "dask", "scheduler": "tcp://user:word@10.0.0.7:8786"},
    ],
)
def test_scheduler_without_dask_or_with_credentials_is_rejected(message):
    with pytest.raises(ValidationError, match="scheduler"):
        HistorySection.model_validate(message)
