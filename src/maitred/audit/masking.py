"""Mask secrets in JSON values and texts, by the name of a field or by the shape of a value.

`mask_value` is for what maitred stores, such as arguments in the audit trail. `mask_text` is for what it
passes on: it goes by shapes alone, since a name such as `next_token` is no secret. Neither finds every
secret. Where no secret may be stored, store hashes instead of values.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from maitred.config.redaction import MASK, names_a_secret, redact

MAX_TEXT: Final = 4_000
_AHEAD: Final = 1_000
_MAX_DEPTH: Final = 60

_SHAPES: Final = tuple(
    (hint, re.compile(rf"(?P<kept>{kept}){form}", re.DOTALL))
    for hint, kept, form in (
        (
            "PRIVATE KEY-----",
            "",
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        ),
        ("gh", "", r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
        ("github_pat_", "", r"github_pat_\w{20,}"),
        ("glpat-", "", r"glpat-[\w-]{20,}"),
        ("xox", "", r"\bxox[a-z]-[\w-]{10,}"),
        ("sk-", "", r"\bsk-[\w-]{20,}"),
        ("k_", "", r"\b[sr]k_(?:live|test)_\w{16,}"),
        ("AKIA", "", r"\bAKIA[A-Z0-9]{16}\b"),
        ("ASIA", "", r"\bASIA[A-Z0-9]{16}\b"),
        ("AIza", "", r"AIza[\w-]{35}"),
        ("npm_", "", r"\bnpm_\w{30,}"),
        ("hf_", "", r"\bhf_[A-Za-z0-9]{30,}"),
        ("gsk_", "", r"\bgsk_[A-Za-z0-9]{24,}"),
        ("ya29.", "", r"\bya29\.[\w-]{20,}"),
        ("GOCSPX-", "", r"GOCSPX-[\w-]{20,}"),
        ("SG.", "", r"\bSG\.[\w-]{16,32}\.[\w-]{16,64}"),
        ("pypi-", "", r"pypi-AgEI[\w-]{50,}"),
        ("_v1_", "", r"\bdo[opr]_v1_[0-9a-f]{64}\b"),
        ("shp", "", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b"),
        ("lin_", "", r"\blin_(?:api|oauth)_\w{32,}"),
        ("whsec_", "", r"whsec_[A-Za-z0-9+/=]{24,}"),
        ("hv", "", r"\bhv[sbr]\.[\w-]{24,}"),
        ("AGE-SECRET-KEY-", "", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
        ("ntn_", "", r"\bntn_[A-Za-z0-9]{40,}"),
        (":AA", r"\b[0-9]{8,10}:", r"AA[\w-]{33}\b"),
        ("AccountKey=", "AccountKey=", r"[A-Za-z0-9+/]{40,}={0,2}"),
        ("maitred_", "", r"\bmaitred_[0-9a-f]{10}_[\w-]{20,}"),
        ("eyJ", "", r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
        ("Bearer ", "Bearer ", r"[\w.~+/-]{8,}=*"),
        ("://", "://", r"[^/\s:@]{0,200}:[^/\s@]{1,200}(?=@)"),
    )
)
"""Per shape: a text that must occur before the search begins, the part that stays, and the pattern."""
_END: Final = r"""(?=[,;:.)\]}>]{0,4}(?:[\s"'`]|\Z)|[,;&|][A-Za-z_]\w*=)"""
"""What follows a value without quotes: the end of the word, a closing character, or another assignment."""
_NO_VALUE: Final = (
    r"""[$<=*"'`]|[A-Za-z_][\w.]*[(\[]|process\.env\b"""
    rf"|(?:[xX]{{3,}}|\.{{2,}}|…|(?i:true|false|null|none|nil|undefined|required|optional)){_END}"
)
"""Start of a value that is no secret: a reference, a placeholder, a comparison, an expression, or a flag."""
_ASSIGNED = re.compile(
    r"(?P<kept>(?<![A-Za-z0-9_])[A-Z0-9_]*"
    r"(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY)=)"
    r"""(?:"[^"$<\n][^"\n]*"|'[^'$<\n][^'\n]*'|"""
    rf"""(?!{_NO_VALUE})[^\s"'`]{{4,}}?{_END})"""
)


def mask_text(text: str) -> str:
    """A text with `***` for what has the shape of a secret, and for what `DB_PASSWORD=` and the like assign.

    References such as `$NAME` and `<your token>` stay.
    """
    for hint, form in _SHAPES:
        if hint in text:
            text = form.sub(rf"\g<kept>{MASK}", text)
    return _ASSIGNED.sub(rf"\g<kept>{MASK}", text) if "=" in text else text


def masked_beginning(text: str, most: int) -> str:
    """At most so many characters of a text without its secrets; an `…` at the end says that more followed.

    More than these are masked, so that no secret is cut before it is recognised.
    """
    masked = mask_text(redact(text[: most + _AHEAD]))
    if len(text) > most + _AHEAD:
        return masked[: max(0, min(most, len(masked) - _AHEAD))] + "…"
    return masked if len(masked) <= most else masked[:most] + "…"


def mask_value(value: Any, depth: int = 0) -> Any:
    """A JSON value with `***` for every secret; a value that is nested too deep is masked whole.

    Texts are cut after `MAX_TEXT` characters, so that no caller can make the search slow.
    """
    if depth > _MAX_DEPTH:
        return MASK
    if isinstance(value, str):
        return masked_beginning(value, MAX_TEXT)
    if isinstance(value, Mapping):
        return {
            mask_value(key): MASK if names_a_secret(key) and _holds(item) else mask_value(item, depth + 1)
            for key, item in value.items()
        }
    return [mask_value(item, depth + 1) for item in value] if isinstance(value, list) else value


def _holds(item: Any) -> bool:
    """Whether the field has a value that may be a secret; a flag is none."""
    return item is not None and not isinstance(item, bool) and item != ""
