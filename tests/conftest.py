"""Fixtures for every floor: real databases, and logging as it was."""

import logging
from collections.abc import Iterator

import pytest
import structlog

pytest_plugins = ["tests.databases"]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command sets logging up for its process, which here is everybody's."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.reset_defaults()
