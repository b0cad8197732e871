"""Defines all tables with SQLAlchemy.

Importing one of the modules imports all of them, so that the metadata is always complete.
"""

from importlib import import_module
from pkgutil import iter_modules

MODULES = tuple(import_module(info.name) for info in iter_modules(__path__, f"{__name__}."))
