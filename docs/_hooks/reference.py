"""Reference pages of whole modules: a line `{{ jaxcfa.joints }}` becomes an entry for each public name in it.

What the modules in `_LISTED` export is listed by hand where its module is not written out as a whole; a name that is in
no page stops the build. `{{ jaxcfa.kinematics introduction }}` is what the module says of itself, without entries.
"""

import importlib
import re
from pathlib import Path

_MODULE = re.compile(r"^\{\{ (jaxcfa[\w.]*) \}\}$", re.MULTILINE)
_INTRODUCTION = re.compile(r"^\{\{ (jaxcfa[\w.]*) introduction \}\}$", re.MULTILINE)
_ENTRY = re.compile(r"^::: jaxcfa(?:\.\w+)*\.(\w+)$", re.MULTILINE)
_LISTED = ("jaxcfa", "jaxcfa.dynamics", "jaxcfa.environments", "jaxcfa.io", "jaxcfa.kinematics", "jaxcfa.model")
_SHORT_FORMS = {"aba", "crba", "rnea"}
# What the package's own modules need of `jaxcfa.model`: numbers of joints, joint type by joint type.
_OF_THE_PACKAGE = {
    *("join_bodies", "join_dofs", "joints_of_segments", "map_joints", "motion_subspace_blocks"),
    *("neutral_configuration", "pad_dofs", "split_bodies", "split_dofs", "unpad_dofs"),
}


def on_page_markdown(markdown: str, **_) -> str:
    """The page with its modules written out."""
    introduced = _INTRODUCTION.sub(lambda match: _introduction(match[1]), markdown)
    return _MODULE.sub(lambda match: _entries(match[1]), introduced)


def on_pre_build(config, **_) -> None:
    """Raises for public names that the reference forgets."""
    pages = [path.read_text(encoding="utf-8") for path in Path(config["docs_dir"], "api").glob("*.md")]
    listed = {name for page in pages for name in _ENTRY.findall(page)}
    whole = {name for page in pages for module in _MODULE.findall(page) for name in _exports(module)}
    public = {name for module in _LISTED for name in _exports(module)}
    forgotten = public - listed - whole - _SHORT_FORMS - _OF_THE_PACKAGE
    if forgotten:
        raise ValueError(f"docs/api/ lists all that is public but {', '.join(sorted(forgotten))}.")


def _introduction(name: str) -> str:
    return importlib.import_module(name).__doc__ or ""


def _entries(name: str) -> str:
    return "\n".join([_introduction(name), *(f"::: {name}.{member}\n" for member in _exports(name))])


def _exports(name: str) -> list[str]:
    module = importlib.import_module(name)
    # A package exports what it imports, some of it when it is first asked for; a module what it defines.
    home = "jaxcfa." if hasattr(module, "__path__") else name
    names = dict.fromkeys([*vars(module), *dir(module)])
    return [
        key
        for key in names
        if not key.startswith("_") and getattr(getattr(module, key), "__module__", "").startswith(home)
    ]
