"""The package as a whole: what importing it needs and does, and that all of its surface is documented."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

import jaxcfa

SUBMODULES = [module.name for module in pkgutil.iter_modules(jaxcfa.__path__) if not module.name.startswith("_")]
MODULES = ["jaxcfa", *(f"jaxcfa.{name}" for name in SUBMODULES)]
NEED_EXTRAS = ["jaxcfa.cli", "jaxcfa.viz"]
EXTRAS = ["gymnasium", "lxml", "matplotlib", "mujoco", "pinocchio", "rich", "trimesh", "typer", "viser", "yourdfpy"]


def run_python(code: str) -> str:
    """What the code prints in a fresh interpreter without the optional dependencies, with warnings as errors."""
    block = f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
    command = [sys.executable, "-W", "error", "-c", block + textwrap.dedent(code)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_import_changes_no_setting_and_prints_nothing():
    output = run_python(
        """
        import jax
        before = dict(jax.config.values)
        import jaxcfa
        changed = {name for name, value in jax.config.values.items() if value != before.get(name, value)}
        assert not changed, changed
        """
    )
    assert output == ""


def test_pictures_are_imported_late():
    """By the first use of `jaxcfa.viz`, and not with the package."""
    run_python(
        """
        import sys
        import jaxcfa
        assert "jaxcfa.viz" not in sys.modules
        assert "viz" in dir(jaxcfa)
        assert not hasattr(jaxcfa, "vis")
        assert callable(jaxcfa.viz.animate)
        """
    )


def test_core_needs_no_optional_dependency():
    modules = [name for name in MODULES if name not in NEED_EXTRAS]
    run_python(
        f"""
        import importlib
        for name in {modules!r}:
            importlib.import_module(name)
        import jax
        from jaxcfa.kinematics import forward_kinematics
        from jaxcfa.model import chain, random_tree
        model = chain(3)
        assert forward_kinematics(model, jax.numpy.zeros(model.nq)).translation.shape == (3, 3)
        random_tree(5, jax.random.key(0))
        """
    )


def test_one_module_uses_what_is_private_to_jax():
    """So that what a new version of JAX may break is in one place."""
    root = Path(jaxcfa.__file__).parent
    assert [x.name for x in root.rglob("*.py") if "from jax._src" in x.read_text("utf-8")] == ["_private_jax.py"]


def test_imports_go_upwards_in_the_table_of_the_design():
    root = Path(jaxcfa.__file__).parent
    design = (Path(__file__).parents[1] / "docs" / "design.md").read_text("utf-8")
    table = re.findall(r"^\| (`.*?`) \|", design, re.MULTILINE)
    place = {name: row for row, names in enumerate(table) for name in re.findall(r"`(\w+)(?:\.py|/)`", names)}
    parts = {x.stem for x in root.iterdir() if x.name.endswith(".py") or (x / "__init__.py").exists()}
    assert place.keys() == parts - {"__init__", "__main__"}
    for file in root.glob("*/*.py"):
        found = re.findall(r"^ *from \.\.(\w*)[.\w]* import \(?\s*(\w+)", file.read_text("utf-8"), re.MULTILINE)
        for name in {folder or module for folder, module in found} & place.keys():
            assert place[name] <= place[file.parent.name], f"{file} imports {name}"
    for file in root.glob("[!_]*.py"):
        for name in set(re.findall(r"^from \.(\w+)", file.read_text("utf-8"), re.MULTILINE)) & place.keys():
            assert place[name] < place[file.stem], f"{file} imports {name}"


def public_objects(module: types.ModuleType) -> dict[str, object]:
    """The public functions and classes of a module that are defined in this package."""
    names = getattr(module, "__all__", [name for name in dir(module) if not name.startswith("_")])
    return {name: value for name in names if is_own(value := getattr(module, name))}


def is_own(value) -> bool:
    return callable(value) and (getattr(value, "__module__", None) or "").split(".")[0] == "jaxcfa"


def has_docstring(value) -> bool:
    doc = (inspect.getdoc(value) if not isinstance(value, type) else value.__dict__.get("__doc__")) or ""
    is_generated = isinstance(value, type) and doc.startswith(f"{value.__name__}(")  # by `dataclasses`
    return bool(doc.strip()) and not is_generated


def public_members(owner: type) -> dict[str, object]:
    """Methods and properties that a class adds to the interface of its bases."""
    inherited = {name for base in owner.__mro__[1:] for name in vars(base)}
    kinds = (types.FunctionType, property, staticmethod, classmethod)
    members = {name: value for name, value in vars(owner).items() if isinstance(value, kinds)}
    return {name: value for name, value in members.items() if not name.startswith("_") and name not in inherited}


def test_what_is_imported_late_is_public():
    """So that the test below sees it."""
    assert {"GymnasiumEnv", "GymnasiumVectorEnv"} <= set(public_objects(jaxcfa.environments))


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_is_documented(name):
    module = importlib.import_module(name)
    missing = [] if module.__doc__ else [name]
    for export, value in public_objects(module).items():
        if not has_docstring(value):
            missing.append(f"{name}.{export}")
        if isinstance(value, type):
            members = public_members(value).items()
            missing += [f"{name}.{export}.{member}" for member, it in members if not has_docstring(it)]
    assert not missing
