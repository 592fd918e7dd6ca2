"""The code in the documents runs when it is copied from top to bottom."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jaxcfa

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# Each document has names of its own, and they share what JAX has traced. Programs are evaluated as those of the tests.
RUN = """
import runpy, sys
import evaluation
import interpreter
evaluation.install()
interpreter.hasten()
for name in sys.argv[1:]:
    interpreter.with_room(lambda: runpy.run_path(name))()
"""


def code_of(document: str) -> str:
    """All Python blocks, at the lines that they have in the document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        first, code = text.count("\n", 0, block.start(1)), block[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines)


WITH_CODE = [name for name in DOCUMENTS if code_of(name).strip()]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_code_runs_from_top_to_bottom(part, tmp_path):
    """A third of the documents in a fresh interpreter, beside a robot file, with warnings as errors."""
    shutil.copy(Path(jaxcfa.__file__).parent / "data" / "arm7.urdf", tmp_path / "robot.urdf")
    names = []
    for document in WITH_CODE[part::3]:
        names.append(document.replace("/", "-").replace(".md", ".py"))
        (tmp_path / names[-1]).write_text(code_of(document), encoding="utf-8")
    paths = [str(Path(jaxcfa.__file__).parent.parent), str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-W", "error", "-c", RUN, *names]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_reference_forgets_nothing():
    """What stops the build of the site, and that names which are imported late are found."""
    hook = runpy.run_path(str(ROOT / "docs" / "_hooks" / "reference.py"))
    hook["on_pre_build"]({"docs_dir": str(ROOT / "docs")})
    page = hook["on_page_markdown"]("{{ jaxcfa.environments }}")
    assert "::: jaxcfa.environments.CartPole\n" in page
    assert "::: jaxcfa.environments.GymnasiumVectorEnv\n" in page
    assert "LOCAL_WORLD_ALIGNED" in hook["on_page_markdown"]("{{ jaxcfa.kinematics introduction }}")


def test_documents_have_code():
    """So that the test above does not pass for want of any."""
    assert "README.md" in WITH_CODE
    assert len(WITH_CODE) > 15
    assert all("import" in code_of(name) for name in WITH_CODE)
