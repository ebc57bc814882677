"""What an agent asked of the menu, and why an act failed, in few words, as far as the trail has it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from maitred.audit.line_index import SUCCESSES
from maitred.audit.masking import mask_text
from maitred.meta_tools.arguments import NAMES_KEYS, PATH_KEYS, PHRASE_KEYS
from maitred.surfaces.web.screen import Visit
from maitred.surfaces.web.templates import first_sentence

_KEYS: Final[Mapping[str, Sequence[str]]] = {
    "search": PHRASE_KEYS,
    "info": NAMES_KEYS,
    "browse": PATH_KEYS,
}
"""By action: under which of its names an argument says what was asked."""
_MOST: Final = 200


def asked_text(line: Mapping[str, Any]) -> str:
    """The phrase of a search, or which tools were asked for; empty if the trail does not have it."""
    arguments = line.get("arguments")
    keys = _KEYS.get(str(line.get("action")), ())
    if not isinstance(arguments, Mapping):
        return ""
    values = [value for key in keys if (value := arguments.get(key))]
    texts = [one for value in values for one in (value if isinstance(value, list) else [value])]
    form = "“{}”" if line["action"] == "search" else "{}"
    return mask_text(", ".join(form.format(one) for one in texts if isinstance(one, str)))[:_MOST]


def keeps_question(line: Mapping[str, Any]) -> bool:
    """Whether it is known what was asked, or nothing was."""
    return line.get("action") not in _KEYS or "arguments_hash" not in line or "arguments" in line


async def reasons_of(visit: Visit, lines: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Why acts failed, by the field `answer` of their lines: the first sentence that the agent read."""
    failed = [line for line in lines if line.get("outcome") and line["outcome"] not in SUCCESSES]
    digests = [str(line["answer"]) for line in failed if line.get("answer")]
    if not digests:
        return {}
    texts = await visit.gateway.audit_answers(digests, visit.viewer)
    return {digest: mask_text(_reason(one.text)) for digest, one in texts.items() if one.is_same}


def _reason(text: str) -> str:
    """The first sentence, with what follows it where it only announces that."""
    first = first_sentence(text)
    rest = text.strip().removeprefix(first).strip()
    return f"{first} {first_sentence(rest)}" if first.endswith(":") and rest else first
