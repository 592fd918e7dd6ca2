"""Runs scripts and notebooks one after the other, in one process, with their programs evaluated as those of the tests.

Each has names of its own, and they share what JAX has traced. Notebooks are run by IPython, cell by cell, which shows
the last value of each as Jupyter does. Run:

    python -W error tests/run_documents.py script.py ... notebook.py ...
"""

import functools
import runpy
import sys
from pathlib import Path

import evaluation
import interpreter


def run(path: Path) -> None:
    """Runs a script, or a notebook in the percent format of jupytext."""
    if path.read_text(encoding="utf-8").startswith("# %%"):
        run_notebook(path)
    else:
        runpy.run_path(str(path))


def run_notebook(path: Path) -> None:
    import jupytext
    import matplotlib
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    matplotlib.use("module://matplotlib_inline.backend_inline")
    settings = Config()
    settings.HistoryManager.enabled = False
    shell = InteractiveShell(config=settings, ipython_dir=".")
    for cell in jupytext.read(path).cells:
        if cell.cell_type == "code":
            shell.run_cell(cell.source).raise_error()


def main() -> None:
    evaluation.install()
    interpreter.hasten()
    for path in map(Path, sys.argv[1:]):
        interpreter.with_room(functools.partial(run, path))()


if __name__ == "__main__":
    main()
