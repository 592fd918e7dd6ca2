"""LaTeX between dollar signs becomes MathML, which browsers show without scripts.

`$...$` within a line and `$$...$$` on lines of its own; not in code.
"""

import re

from latex2mathml.converter import convert

_CODE_OR_FORMULA = re.compile(
    r"(?P<fence>^```.*?^```\s*?$)|(?P<code>`[^`\n]+`)|^\$\$(?P<block>.+?)\$\$\s*?$|\$(?P<inline>[^$\n]+)\$",
    re.DOTALL | re.MULTILINE,
)


def on_page_markdown(markdown: str, **_) -> str:
    """The page with its formulas converted."""
    return _CODE_OR_FORMULA.sub(_converted, markdown)


def _converted(match: re.Match[str]) -> str:
    if match["block"]:
        return f"\n{convert(match['block'].strip(), display='block')}\n"
    # In a span, since Markdown takes a line that begins with <math> for a block of its own.
    return f"<span>{convert(match['inline'].strip())}</span>" if match["inline"] else match[0]
