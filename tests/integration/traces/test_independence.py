"""The independent computation of scores imports nothing of the product."""

import subprocess
import sys

_SCRIPT = """
import sys
import tests.support.reference
import tests.integration.traces.recorded_events
print([name for name in sys.modules if name.split(".")[0] == "oracle"])
"""


def test_reference_implementation_imports_no_module_under_test():
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
