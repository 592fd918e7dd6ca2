"""Shapes and types of annotations, checked while all functions are traced.

The checks change every function of the package as it is imported, so this runs in a process of its own.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TRACE = """
import jaxtyping

checker = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
with jaxtyping.install_import_hook("jaxcfa", checker):
    import jaxcfa

import evaluation
import interpreter
import traced_surface
evaluation.install()
interpreter.hasten()
interpreter.with_room(traced_surface.trace)()
"""


@pytest.mark.slow
def test_annotations_are_true():
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here.parent), str(here)]), "JAX_ENABLE_X64": "1"}
    command = [sys.executable, "-c", textwrap.dedent(TRACE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
