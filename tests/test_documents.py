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
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))


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
    run(names, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_notebooks_run_cell_by_cell(part, tmp_path):
    """Half of the notebooks, as the documents; building the site runs them in Jupyter."""
    names = [str(path) for path in NOTEBOOKS[part::2]]
    assert len(names) > 3
    run(names, tmp_path)


def run(names: list[str], folder: Path) -> None:
    """In a fresh interpreter, with warnings as errors."""
    command = [sys.executable, "-W", "error", str(ROOT / "tests" / "run_documents.py"), *names]
    environment = os.environ | {"PYTHONPATH": str(Path(jaxcfa.__file__).parent.parent)}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{result.stderr}\n{result.stdout[-2000:]}"


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
