"""The subjects of a sentence as its phrases show them, and the subject of a definition.

A vault speaks of passwords and a mail server of contacts; a weather tool that does so is suspicious.
Therefore the names of a definition and of its plain parameters excuse the matters that belong to them.
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from maitred.poisoning.confusables import fold
from maitred.poisoning.ideas import ideas_in, mask

PATH: Final = (
    r"(?:(?<!\w)\.(?:ssh|aws|kube|gnupg|docker|azure)\b|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|(?<![\w*])\.env\b"
    r"|\.pem\b"
    r"|/etc/(?:passwd|shadow|sudoers)|\.(?:npmrc|pypirc|netrc|pgpass|git-credentials|gitconfig)\b"
    r"|\bmcp(?:_config|_settings)?\.json|/proc/self|\bknown_hosts\b|\.(?:bashrc|zshrc|htpasswd"
    r"|vault-token)\b|\bclaude_desktop_config|\bwallet\.dat|_history\b|\bhosts\.yml|default_credentials"
    r"|\bprintenv\b|\bseed phrase|\bshell history|\bkeychain\b|\bpassword manager|\bbrowser profile"
    r"|\bcookies? (?:database|jar|file)|\.config/(?:gh|gcloud|op)\b|\bauthorized_keys\b|\bkey ?files?\b)"
)
"""A file or place that keeps secrets."""

_CREDENTIALS = (
    r"\b(?:pass(?:word|phrase)s?|(?:api|secret|access|private|ssh|deploy|signing|encryption|license)["
    r" _-]keys?"
    r"|secrets?|credentials?|connection strings?|client_secret|(?:bearer|access|auth\w*|session|api|refresh"
    r"|oauth|security)[ _]tokens?|tokens you|(?:session|login|browser|auth\w*|user's) cookies?"
    r"|(?:seed|recovery) (?:phrase|words)|environment variables?|authori[sz]ation headers?|(?:credit|bank"
    r"|payment)"
    r" cards?(?: numbers?)?|login data|log-?in details)\b"
)
_TALK = (
    r"\b(?:(?:the|this|our|entire|whole|current|full|your) (?:\w+ )?(?:conversation|chat(?! (?:reply"
    r"|message|space|room|id|app|model))|dialogue|transcript)"
    r"|(?:conversation|chat|dialogue|message) (?:so far|history|log)|system (?:prompt|message)"
    r"|(?:your|initial|hidden|original|developer) (?:\w+ )?(?:prompts?|instructions|reasoning|thoughts|setup)"
    r"|(?:earlier|previous|prior|past|preceding|recent|user's|last \w+) (?:\w+ )?(?:messages|prompts"
    r"|questions|answers"
    r"|repl(?:y|ies)|turns|requests|inputs)|every(?:thing)? (?:\w+ )?(?:message|prompt|question|reply|turn)"
    r"|chain of thought|clipboard|how you were (?:set up|configured|instructed|prompted)|(?:in|during|of)"
    r" (?:this|the|your) session"
    r"|first (?:user )?message|(?:what|everything|all) (?:was|the user|they|people|you|has been|had been)"
    r" (?:\w+ )?(?:said|asked(?! (?:to|for)\b)|written|wrote|typed|told|discussed|know|knows|shared|learned"
    r"|saw|seen))\b"
)
_OTHERS = (
    r"\b(?:other|another|different|any|every|all|each|whichever|whatever|foreign) (?:of the )?(?:\w+ )?"
    r"(?:tools?|servers?|functions?|plugins?)(?:'s?)?\b|\btools? of (?:any|other|all)\b"
)
_PERSON = (
    r"\b(?:user|person|customer|their|his|her|human|patient|people|owner|visitor|author)(?:'s|s')? (?:\w+"
    r" ){0,2}"
    r"(?:location|contacts?|calendar|address(?: book)?|(?:e-?)?mails?|full name|salary|health (?:data"
    r"|record)s?|documents?|files?|photos?"
    r"|home|folders?|directory|inbox|messages?|notes?|phone|card|history|repositor(?:y|ies)|workspace|machine"
    r"|computer|login|user ?name|host ?name|identity|record|diary|bank \w+|employer|password|desktop"
    r"|screen)\b"
    r"|\bhome (?:folder|directory)\b|\baddress book\b|\b(?:private|personal|confidential) (?:\w+ )?(?:data"
    r"|matters"
    r"|messages?|mails?|notes?|repositor(?:y|ies)|documents?|files?|details|information|photos?)\b"
    r"|\bfiles? (?:that )?(?:is|are|they have|you have) open\b|\bopen (?:files|documents|tabs|windows)\b"
)
_SINK = (
    r"`[\w.-]{1,40}`|\b(?:parameter|argument|field|param)s?\b|\bthis (?:tool|call|function|server|request)\b"
    r"|\b(?:send|put|paste|write|enter|give|place|insert|type)\w* (?:\w+ ){0,4}(?:here|along|too)\b"
    r"|\b(?:each|every"
    r"|the|next|any) (?:call|request)\b|\bit here\b"
)
_ADDRESS = (
    r"(?:\b(?:https?|s3|ftp|wss?)://|\bwebhook\b|[\w.-]{1,40}@[\w-]{1,40}\.\w|\bgit@"
    r"|\b(?:to|at) [\w-]{1,40}\.(?:example|com|net|org|io)\b)"
)
_TRAITS: Final = (
    ("@path", mask("file secret personal"), re.compile(PATH + r"|\bhome (?:folder|directory)\b")),
    ("@secret", mask("secret token file money"), re.compile(_CREDENTIALS)),
    ("@talk", mask("context orders past everything remember agent"), re.compile(_TALK)),
    ("@others", mask("tools"), re.compile(_OTHERS)),
    ("@person", mask("personal private money file"), re.compile(_PERSON)),
    ("@sink", mask("send field read call oblige"), re.compile(_SINK)),
    ("@address", mask("send out read personal act change instead"), re.compile(_ADDRESS)),
)
_FOREIGN = re.compile(
    r"\b(?:und|der|die|das|den|mit|nicht|vor|sie|les|des|une|dans|avec|sur|los|las|una|con|por|antes|che"
    r"|della|il|gli|het"
    r"|een|naar|och|att|som|nie|się|jest|przed|bir|ve|için|uma|com|os|dos|sem|og|til|ikke|dan|yang|untuk)\b"
)
_LETTER = re.compile(r"[^\W\d_a-z]")
_FEW = 2
_ENGLISH = (" the ", " of ", " to ", " is ", " and ")
_ABROAD: Final = mask("@abroad")
ASKED_FOR: Final = mask("@given @sink")
"""The ideas that the text of any parameter has."""

_BITS: Final = tuple((mask(name), needs, pattern) for name, needs, pattern in _TRAITS)

_SUBJECTS: Final = (
    (
        re.compile(
            r"\b(?:auth\w*|log ?in|env\w*|ssh|vaults?|jwt|oauth|keys?|cookies?|sign\w*|secrets?|tokens?"
            r"|passw\w+|pass"
            r"|credentials?|certs?|cert\w+|identity|wallets?|security|scan\w*|leaks?|config\w*|kube\w*|aws"
            r"|crypt\w+)\b"
        ),
        mask("@secret @path secret token file"),
        True,
    ),
    (
        re.compile(
            r"\b(?:chats?|messages?|prompts?|conversations?|memor(?:y|ies)|agents?|llms?|think\w*|thoughts?"
            r"|reason\w*"
            r"|sessions?|dialogues?|transcripts?|threads?|clipboard|contexts?|history|complet\w+|ask"
            r"|models?|sampl\w+"
            r"|templates?)\b"
        ),
        mask("@talk context"),
        False,
    ),
    (
        re.compile(
            r"\b(?:contacts?|calendars?|mail\w*|e ?mails?|photos?|users?|customers?|locations?|files?"
            r"|folders?|records?"
            r"|accounts?|messages?|profiles?|people|persons?|directory|directories|documents?|docs?|notes?"
            r"|drive|repos?"
            r"|repositor\w+|workspaces?|inbox|health|patients?|members?|employees?|payments?|cards?|orders?"
            r"|fs)\b"
        ),
        mask("@person personal private"),
        True,
    ),
    (
        re.compile(r"\b(?:memor(?:y|ies)|remember|recall|knowledge|notes?)\b"),
        mask("remember"),
        False,
    ),
)
_WORDS = re.compile(r"[\W_]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MOST_WORDS = 3
_LONG_NAME = 40


def traits(sentence: str, ideas: int) -> int:
    """Return the ideas of a folded sentence, with those that its phrases add."""
    all_ideas = ideas
    for bit, needs, pattern in _BITS:
        if ideas & needs and pattern.search(sentence):
            all_ideas |= bit
    if _is_abroad(sentence):
        all_ideas |= _ABROAD
    return all_ideas


@lru_cache(maxsize=8_192)
def ideas_with_traits(sentence: str) -> int:
    """Return the ideas of the words and phrases of a folded sentence."""
    ideas = ideas_in(sentence)
    return traits(sentence, ideas) if ideas else 0


def _is_abroad(sentence: str) -> bool:
    """Return whether a sentence is in another language, by its letters or its small words."""
    if not sentence.isascii() and _LETTER.search(sentence):
        return True
    if any(word in sentence for word in _ENGLISH):
        return False
    return len(set(_FOREIGN.findall(sentence))) >= _FEW


def excused_ideas(server: str, definition: Mapping[str, Any], own: Collection[str] = ()) -> int:
    """Return the ideas that belong to a definition, by the names of the tool and its plain parameters.

    The instructions of a server speak for all of it, so they may speak of what its tools (`own`) are named
    after.
    """
    names = [server, *(str(definition.get(key) or "") for key in ("name", "title"))]
    schema = definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    parameters = list(properties) if isinstance(properties, dict) else []
    arguments = definition.get("arguments")
    parameters += (
        [one.get("name") for one in arguments if isinstance(one, dict)] if isinstance(arguments, list) else []
    )
    parameters = [
        name for name in map(str, parameters) if name.count("_") < _MOST_WORDS and len(name) < _LONG_NAME
    ]
    if "instructions" in definition:
        names += own
    name_text = _plain(names)
    matters_excused = ideas_in(name_text) & mask("destroy")
    for pattern, matters, by_parameter in _SUBJECTS:
        if pattern.search(name_text) or (by_parameter and pattern.search(_plain(parameters))):
            matters_excused |= matters
    return matters_excused


def _plain(names: Collection[str]) -> str:
    return _WORDS.sub(" ", fold(_HUMP.sub(" ", " ".join(names))))
