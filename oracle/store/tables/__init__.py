"""SQLAlchemy definitions of all tables; importing one of the modules imports all of them.

The metadata is therefore complete wherever it is used.
"""

from importlib import import_module
from pkgutil import iter_modules

MODULES = tuple(import_module(info.name) for info in iter_modules(__path__, f"{__name__}."))
