"""Signal handlers do nothing: an exception of one might be lost, and it might never be called."""

import ast

from tests.house.product import ROOT, list_nodes, parse_sources

# Kinds of signal handling that this codebase does not use.
STRANGE = {"sigwait", "setitimer", "alarm", "add_signal_handler", "pthread_kill"}


def calls(tree: ast.Module, *names: str) -> list[ast.Call]:
    """Return every call of an attribute with one of these names."""
    return [
        node
        for node in list_nodes(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
    ]


def iterate_installed_handlers(tree: ast.Module) -> list[ast.expr]:
    """Return the signal handlers that a module installs."""
    return [
        call.args[1]
        for call in calls(tree, "signal")
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "signal"
    ]


def is_harmless(handler: ast.expr, tree: ast.Module) -> bool:
    """Return whether a handler is a default of the kernel or of Python, or does nothing."""
    if isinstance(handler, ast.Attribute):
        return handler.attr in {"SIG_IGN", "SIG_DFL"}
    assert isinstance(handler, ast.Name), ast.dump(handler)
    if handler.id in {"previous_handler", "handler"}:
        return True
    (function,) = (
        node
        for node in list_nodes(tree)
        if isinstance(node, ast.FunctionDef) and node.name == handler.id
    )
    return ast.get_docstring(function) is not None and len(function.body) == 1


def test_every_signal_handler_has_an_empty_body():
    for path, tree in parse_sources().items():
        assert not calls(tree, *STRANGE), path
        assert all(is_harmless(handler, tree) for handler in iterate_installed_handlers(tree)), (
            path
        )


def test_signal_handlers_are_installed_only_in_listed_modules():
    places = {
        path.relative_to(ROOT).as_posix()
        for path, tree in parse_sources().items()
        if iterate_installed_handlers(tree)
    }
    commands = {"oracle/cli/command_index.py"}
    workers = {
        "oracle/chain/segments/worker.py",
        "oracle/daemon/rules_previews.py",
        "lab/backtest/worker_pool.py",
    }
    assert places == {"oracle/daemon/stopping.py", *commands, *workers}


def test_raising_signal_handler_is_detected():
    tree = ast.parse(
        "def note(number, frame):\n    raise SystemExit\nsignal.signal(signal.SIGTERM, note)"
    )
    (handler,) = iterate_installed_handlers(tree)
    assert not is_harmless(handler, tree)
