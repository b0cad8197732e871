"""Which definitions an entry point reaches, and which entry points there are.

A name reaches what it means. What stands behind a dot reaches every method of that name in the
classes that were made on the way: more than is really called, never less.
"""

from functools import cache

from tests.house.reach.definitions import Definition, Place, modules

_ALWAYS = "__"


class _Walk:
    """Goes from definition to definition until there is nothing new."""

    def __init__(self, entry: Place) -> None:
        self.seen: set[Place] = set()
        self._attributes: set[str] = set()
        self._classes: dict[Place, Definition] = {}
        self._waiting = [entry, (entry[0], "")]
        while self._waiting:
            self._visit(self._waiting.pop())
            if not self._waiting:
                self._waiting = [place for place in self._called() if place not in self.seen]

    def _visit(self, place: Place) -> None:
        definition = _found(place)
        if definition is None or definition.place in self.seen:
            return
        self.seen.add(definition.place)
        path, name = definition.place
        if not name:
            # To import a module runs what stands at its top, and imports what it imports.
            self._waiting += [(file, "") for file in modules()[path].imported]
        self._attributes |= definition.attributes
        # What a module only binds is reached by whoever mentions it.
        self._waiting += definition.uses
        if definition.is_class:
            self._classes[definition.place] = definition
            self._waiting += definition.bases

    def _called(self) -> set[Place]:
        return {
            place
            for one in self._classes.values()
            for name, place in one.methods.items()
            if name in self._attributes or name.startswith(_ALWAYS)
        }

    def fields(self) -> set[Place]:
        return {
            (path, f"{name}.{one}")
            for (path, name), found in self._classes.items()
            for one in found.fields & self._attributes
        }


def _found(place: Place) -> Definition | None:
    """Return what a name means, through the modules that only pass it on."""
    path, name = place
    module = modules()[path]
    if name in module.definitions:
        return module.definitions[name]
    meant = module.names.get(name, place)
    return None if meant == place else _found(meant)


@cache
def reached_from(entry: Place) -> frozenset[Place]:
    """Return every definition and every field that is read on the way from an entry point."""
    walk = _Walk(entry)
    return frozenset(walk.seen | walk.fields())
