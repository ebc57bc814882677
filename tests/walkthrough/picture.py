"""The walk-through as one SVG that moves by itself: styles alone, no script, nothing from elsewhere."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from tests.walkthrough.recorder import HEIGHT, Screen, length_s
from tests.walkthrough.terminal import PLAIN, WIDTH, Line, Style

_CHAR: Final = 8.4
_ROW: Final = 18
_LEFT: Final = 16
_TOP: Final = 44
_COLOURS: Final = ("#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#c9d1d9")
_PLAIN_COLOUR: Final = "#e6edf3"
_GROUND: Final = "#0d1117"
_BAR: Final = "#21262d"
_BASELINE: Final = 14


def picture(shown: Sequence[Screen], title: str) -> str:
    """The SVG; it begins again when it has ended."""
    whole_s = length_s(shown)
    width, height = WIDTH * _CHAR + 2 * _LEFT, HEIGHT * _ROW + _TOP + _LEFT
    rules = [
        f"text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"fill:{_PLAIN_COLOUR};white-space:pre}}",
        f"g{{visibility:hidden;animation-duration:{whole_s:.1f}s;animation-timing-function:step-end;"
        "animation-iteration-count:infinite}",
        f".t{{fill:{_GROUND};animation-duration:{whole_s:.1f}s;animation-iteration-count:infinite}}",
        ".b{font-weight:bold}.d{opacity:.65}",
        *(f".c{number}{{fill:{colour}}}" for number, colour in enumerate(_COLOURS)),
    ]
    groups = []
    for number, one in enumerate(shown):
        begin, end = (f"{at / whole_s * 100:.3f}%" for at in (one.begin_s, one.end_s))
        rules.append(f"#s{number}{{animation-name:s{number}}}")
        rules.append(
            f"@keyframes s{number}{{0%{{visibility:hidden}}{begin}{{visibility:visible}}"
            f"{end}{{visibility:hidden}}}}"
        )
        groups.append(
            f'<g id="s{number}">{"".join(_rows(one.lines))}{_typing(number, one, whole_s, rules)}</g>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img"'
        f' aria-label="{escape(title)}"><title>{escape(title)}</title><style>{"".join(rules)}</style>'
        f'<rect width="100%" height="100%" rx="8" fill="{_GROUND}"/>'
        f'<rect width="100%" height="30" rx="8" fill="{_BAR}"/>'
        + "".join(
            f'<circle cx="{18 + 18 * place}" cy="15" r="5" fill="{fill}"/>'
            for place, fill in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
        )
        + "\n".join(groups)
        + "</svg>\n"
    )


def _rows(lines: Sequence[Line]) -> Iterator[str]:
    for place, line in enumerate(lines):
        if line:
            y = _TOP + place * _ROW + _BASELINE
            yield f'<text x="{_LEFT}" y="{y}">{"".join(_span(*run) for run in _placed(line))}</text>'


def _placed(line: Line) -> Iterator[tuple[str, Style, float]]:
    """Each run with where it begins, so that no font shifts those behind it."""
    column = 0
    for text, style in line:
        yield text, style, _LEFT + column * _CHAR
        column += len(text)


def _span(text: str, style: Style, x: float) -> str:
    names = [f"c{style.colour}" * (style.colour >= 0), "b" * style.bold, "d" * style.dim]
    kind = " ".join(filter(None, names))
    length = f' textLength="{len(text) * _CHAR:.1f}"' if len(text) > 1 else ""
    marked = f' class="{kind}"' if kind and style != PLAIN else ""
    return f'<tspan x="{x:.1f}"{length}{marked}>{escape(text, quote=False)}</tspan>'


def _typing(number: int, one: Screen, whole_s: float, rules: list[str]) -> str:
    """Covers of the lines of the command, which go away character by character."""
    if one.command_row < 0:
        return ""
    covers = []
    begin, end = one.typing
    lines = one.lines[one.command_row :]
    counts = [sum(len(text) for text, _ in line) for line in lines]
    keys = [counts[0] - 2, *counts[1:]]
    at = begin
    for place, count in enumerate(keys):
        until = at + (end - begin) * count / max(1, sum(keys))
        name, indent = f"t{number}_{place}", 2 if place == 0 else 0
        away = count * _CHAR
        rules.append(f"#{name}{{animation-name:{name}}}")
        rules.append(
            f"@keyframes {name}{{0%,{at / whole_s * 100:.3f}%{{transform:none;"
            f"animation-timing-function:steps({count})}}{until / whole_s * 100:.3f}%,100%"
            f"{{transform:translateX({away:.1f}px)}}}}"
        )
        x, y = _LEFT + indent * _CHAR, _TOP + (one.command_row + place) * _ROW
        covers.append(
            f'<rect id="{name}" class="t" x="{x:.1f}" y="{y}" width="{WIDTH * _CHAR:.0f}" height="{_ROW}"/>'
        )
        at = until
    return "".join(covers)
