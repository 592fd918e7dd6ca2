"""Reference pages of whole modules: a line `{{ jaxcfa.joints }}` becomes an entry for each public name in it.

What `jaxcfa` itself exports is listed by hand, in groups; a name that is in none of them stops the build.
"""

import importlib
import re
from pathlib import Path

_MODULE = re.compile(r"^\{\{ (jaxcfa[\w.]*) \}\}$", re.MULTILINE)
_ENTRY = re.compile(r"^::: jaxcfa\.(\w+)$", re.MULTILINE)
_SHORT_FORMS = {"aba", "crba", "rnea"}


def on_page_markdown(markdown: str, **_) -> str:
    """The page with its modules written out."""
    return _MODULE.sub(lambda match: _entries(match[1]), markdown)


def on_pre_build(config, **_) -> None:
    """Raises for public functions that the reference forgets."""
    pages = [path.read_text(encoding="utf-8") for path in Path(config["docs_dir"], "api").glob("*.md")]
    listed = {name for page in pages for name in _ENTRY.findall(page)}
    whole = {name for page in pages for module in _MODULE.findall(page) for name in _exports(module)}
    forgotten = set(_exports("jaxcfa")) - listed - whole - _SHORT_FORMS
    if forgotten:
        raise ValueError(f"docs/api/ lists all that jaxcfa exports but {', '.join(sorted(forgotten))}.")


def _entries(name: str) -> str:
    introduction = importlib.import_module(name).__doc__ or ""
    return "\n".join([introduction, *(f"::: {name}.{member}\n" for member in _exports(name))])


def _exports(name: str) -> list[str]:
    module = importlib.import_module(name)
    # A package exports what it imports, a module what it defines.
    home = "jaxcfa." if hasattr(module, "__path__") else name
    return [
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", "").startswith(home)
    ]
