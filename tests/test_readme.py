"""The code in the documents runs when it is copied from top to bottom."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jaxcfa

ROOT = Path(__file__).parent.parent
DOCUMENTS = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
# Programs compile in half the time.
QUICK = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false",
}


def code_of(document: str) -> str:
    """All Python blocks, at the lines that they have in the document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        first, code = text.count("\n", 0, block.start(1)), block[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("document", [name for name in DOCUMENTS if code_of(name).strip()])
def test_code_runs_from_top_to_bottom(document, tmp_path):
    """In a fresh interpreter beside a robot file, with warnings as errors."""
    shutil.copy(Path(jaxcfa.__file__).parent / "data" / "arm7.urdf", tmp_path / "robot.urdf")
    (tmp_path / "copied.py").write_text(code_of(document), encoding="utf-8")
    environment = os.environ | QUICK | {"PYTHONPATH": str(Path(jaxcfa.__file__).parent.parent)}
    command = [sys.executable, "-W", "error", "copied.py"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_documents_have_code():
    """So that the test above does not pass for want of any."""
    assert code_of("README.md").count("import") > 5
