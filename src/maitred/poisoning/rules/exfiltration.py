"""Rules against phrases that take secrets and private things, send them out or hide that from the user.

They are written after publicly known attacks, with the development half of the labelled corpora
(`tests/data/poison`). `maitred eval poison` measures them on the other half. They are no proof: a sentence
can always be put in another way.
"""

from typing import Final

from maitred.poisoning.rules.base import Rule, rule
from maitred.poisoning.subjects import PATH

_ABROAD = r"[^\W\d_a-z]"  # a letter that English does not have; in such a sentence the ideas alone decide
_SPARED = (
    r"\b(?:not|never|don't|cannot|can't|nor|no|refuses?|masks?|masked) (?!forget|fail|omit|hesitate"
    r"|forgetting)"
    r".{0,40}\b(?:pass|read|send|sent|print|returned|shown|included?|copied|stored|exposed?|logged|taken?"
    r"|asked?)"
    r"|\bwithout (?:\w+ ){0,2}(?:enter|leav|expos|reveal|show)\w+"
)
_FILE = rf"(?:{PATH}|\b(?:private|ssh|deploy|signing|encryption) keys?\b)"
_PASSWORDS = (
    r"(?:passwords?|passphrases?|(?:api|secret|access|private|ssh|deploy) keys?|secrets?|credentials?"
    r"|connection strings?|(?:\w+ )?tokens?|(?:\w+ )?cookies?)"
)
_ALL = r"(?:all|any|every|each|entire|complete|whole|full|unabridged|verbatim|recent|last (?:\w+ )?|current)"
_TARGET = (
    r"(?:`[\w.-]{1,40}`|\b(?:parameter|argument|field|param)s?\b|\bthis (?:tool|call|function|server)\b)"
)
_GIVE = (
    r"(?:pass|send|include|attach|append|add|put|paste|supply|hand|forward|transmit|give|submit|provide"
    r"|insert|share|upload|post|copy|report|write|fill|set|export|dump|deliver|disclose|reveal|surrender"
    r"|store"
    r"|encode|embed|route|relay|feed|leak|deposit|record|log|state|mention|quote|email|mail)(?:s|es|ed|ing"
    r"|d)?"
)
_BASE = r"\b(?:read|open|load|cat|get|fetch|grab|copy|access|extract|collect|retrieve|send|forward|upload)\b"
_TAKE = rf"\b(?:read|open|load|cat|grab|fetch|retrieve|look for|collect|find|gather|take|{_GIVE})\b"
_TALK = (
    r"(?:conversation|chat|dialogue|transcript|messages?|prompts?|questions?|repl(?:y|ies)|answers?|requests?"
    r"|chain of thought|reasoning|tool calls?|results|clipboard|instructions|inputs?|values|history|session)"
)
_OURS = (
    r"(?:so far|up to now|until now|earlier|of the user|(?:with|from|by) the user"
    r"|the user (?:has|wrote|sent|asked|enters|said|types)|the user's|you (?:have|were|know|can|got|received)"
    r"|your|(?:this|the current) (?:chat|conversation|session))"
)
_PRIVATE = (
    r"(?:location|contacts?|calendar|address book|home address|full name|mailbox|clipboard|browsing history"
    r"|(?:private|direct|personal) \w+|open (?:files|documents|tabs)|employer|salary|phone number|passwords?"
    r"|installed programs|repositories|e?-?mails?|files|questions?|messages?|photos?|documents|notes"
    r"|credit card"
    r"|bank \w+|date of birth|health \w+|identity|employer|source code|search history|ip address)"
)
_ADDRESS = r"(?:https?://|s3://|ftp://|\bwebhook\b|[\w.-]{1,40}@[\w-]{1,40}\.\w)"
_SENDING = (
    r"\b(?:send|post|forward|report|upload|mail|share|cop(?:y|i)|export|dump|invite|submit|address|transmit)"
    r"(?:e?d|ing)?\b"
)

TAKING: Final[tuple[Rule, ...]] = (
    rule(
        "secrecy",
        "it keeps something from the user",
        "not tell user",
        _ABROAD,
        r"\b(?:not|never|don't|without|avoid)\b.{0,25}\b(?:tell|mention|inform|reveal|disclos|notify|say"
        r"|alert|admit|acknowledg|explain)\w*\b.{0,30}\b(?:the user|them|users)\b",
        r"\b(?:nicht|nichts|pas|sin|sem|non(?!-)|senza|niet|nie)\b",
        but=r"\b(?:and|but|please) tell\b|\bunless (?:asked|the user|they)\b|"
        r"[\uff0c,][^\uff0c,]{0,16}(?:请|請)?告[诉知訴]"
        r"|\bnon-human\b",
    ),
    rule(
        "secrecy",
        "it keeps something quiet",
        "not|hide|tell|keep",
        r"\bkeep (?:this|it|that) (?:to yourself|secret|quiet|hidden|between)",
        r"\b(?:do not|don't|never|not to|need not|no need to|no reason to|should not|must not|not) "
        r"(?:say (?:a word|anything)|point (?:this|it) out|bring (?:it|this) up|be (?:quoted|mentioned)"
        r"|(?:mention|reveal|disclose|tell|list|report) (?:it|this|that|anyone|anybody|about)\b"
        r"|(?:have to )?appear in (?:what|your))",
        r"\b(?:user|person|they|human)\b.{0,40}\b(?:should|must|may|shall|need|does|do|will) (?:not|never) "
        r"(?:learn|know|notice|see|find out|(?:be|become) (?:told|aware|informed))",
        r"\bbehind the (?:user's )?back",
        r"\bwithout (?:the user|them|the user's|their) (?:\w+ )?(?:know|notic|being|realis|realiz)",
        r"\b(?:stay|remain|keep) silent|\bsay nothing\b|\bpresent (?:it|this|them) as if\b",
        r"\b(?:do not|don't|never|must not|should not) (?:\w+ )?(?:disclose|reveal|draw attention|let on)\b",
        r"\b(?:do not|don't|never) (?:\w+ )?mention\b.{0,50}\b(?:instruction|step|note|file|it|this|these"
        r"|draw)",
        r"\b(?:nobody|no one) (?:is )?(?:watch|look|notic)\w+",
        r"(?<!even )\bwithout (?:mentioning|saying|telling|drawing attention)",
        but=r"\b(?:tools?|they|it|results?|endpoints?|api|pages?|that|which) (?:\w+ )?(?:never|do not|does"
        r" not|don't|doesn't)\b",
    ),
    rule(
        "secrecy",
        "it wants something done where the user cannot see it",
        "hide",
        r"\b(?:silently|secretly|covertly|stealthily) (?:copy|send|forward|execut|upload|add|invit|includ"
        r"|call|read|run|log)",
        r"\b(?:you|assistant|model|and|must|should|then)\b.{0,20}\b(?:silently|secretly|covertly|stealthily"
        r"|discreetly) (?!skip|ignor|drop|fail|discard|trunc|return|omit|fall|lo|overwr|do nothing|remov)\w+",
        r"^(?:secretly|covertly|stealthily)\b",
        r"\b(?:conceal|hid(?:e|ing)|withhold)\b.{0,40}\bfrom the (?:user|person|human)",
        _ABROAD,
    ),
    rule(
        "exfiltration",
        "it has the model take private files or keys and pass them on",
        "file|secret",
        rf"{_TAKE}.{{0,90}}{_FILE}.{{0,150}}{_TARGET}",
        rf"{_TARGET}.{{0,90}}{_FILE}",
        rf"{_FILE}.{{0,60}}\b(?:as|in|into|to|with|through) (?:the )?{_TARGET}",
        rf"\b(?:contents?|text|output|lines) (?:of|found in|from|in)\b.{{0,60}}{PATH}",
        severity="refuse",
        but=rf"\b(?:path (?:of|to)|paths? of|public keys?\b|server's environment)|{_SPARED}",
    ),
    rule(
        "exfiltration",
        "it names a private file in an order",
        "file read|send",
        rf"{PATH}.{{0,200}}(?:`\w|{_ABROAD})",
        rf"(?:`\w|{_ABROAD}).{{0,200}}{PATH}",
        severity="refuse",
        but=rf"\bpath|{_SPARED}",
    ),
    rule(
        "exfiltration",
        "it has private files read or passed on that its work does not need",
        "file|secret|token read|send",
        rf"{_BASE}.{{0,60}}{PATH}.{{0,120}}\b(?:include|send|pass|append|share|return it|report|contents?"
        r"|response|answer|verif\w+)\b",
        rf"\b(?:before|first|also|must|should|then|please|always)\b.{{0,50}}{_BASE}.{{0,60}}{PATH}",
        rf"{_BASE}.{{0,60}}{PATH}.{{0,20}}\b(?:before|first)\b",
        rf"\b(?:include|send|pass|return|append|upload)\b.{{0,40}}\bcontents?\b.{{0,40}}{PATH}",
        rf"\balso (?:reads?|sends?|collects?|copies|uploads?|forwards?|gathers?|includes?)\b.{{0,60}}"
        rf"(?:{_FILE}|\b{_PASSWORDS}\b)",
        rf"\b(?:before|first)\b.{{0,60}}{_BASE} (?:all |the |any |your |every )*(?:\w+ )?"
        r"(?:api keys?|credentials|passwords?|secrets|access tokens?)\b",
        rf"{_BASE} (?:all |the |any |your |every )*(?:\w+ )?(?:bearer|access|auth|session) tokens? to\b",
        but=rf"\b(?:path (?:of|to)|paths? of|public keys?\b|server's environment)|{_SPARED}",
    ),
    rule(
        "exfiltration",
        "it has the model gather secrets",
        "secret|file",
        rf"\b(?:{_ALL}|the|your|their|user's|users'|which) (?:[\w-]+ ){{0,3}}{_PASSWORDS}\b.{{0,80}}\b(?:you "
        r"(?:know|can find|have|find|saw)|chat\b|conversation\b|this session|in memory|at your disposal"
        r"|in the environment|from the browser|ask for (?:it|them) if)",
        rf"\byou (?:know|have seen|can find|find)\b.{{0,40}}\b{_PASSWORDS}\b",
        rf"\b(?:collect|gather|harvest|steal)\w* (?:all |the |any |every )?(?:\w+ )?{_PASSWORDS}\b",
        rf"\b(?:send|pass|give|hand|forward|bring)\w* (?:\w+ ){{1,3}}{_PASSWORDS}\b.{{0,30}}\b(?:in|into|to"
        rf"|as|through|with) {_TARGET}",
        rf"\b(?:user's|their|your) (?:[\w-]+ ){{0,2}}{_PASSWORDS}\b.{{0,60}}{_TARGET}",
        but=_SPARED,
    ),
    rule(
        "lure",
        "it asks for what the model knows beyond this call",
        "context|past|orders|agent|tools|user|call",
        rf"\b{_ALL}\b.{{0,50}}\b{_TALK}\b.{{0,40}}\b{_OURS}\b",
        r"\b(?:each|every|all) (?:prompts?|messages?|questions?|repl(?:y|ies)|answers?|inputs?|tool calls?)"
        r"\b.{0,20}\b(?:of|from|by|made|between) (?:the user|you)",
        r"\b(?:conversation|chat|dialogue|history) .{0,30}\b(?:word for word|verbatim|in full|unabridged)",
        rf"{_TARGET}.{{0,60}}\b(?:messages|words|conversation|history|answers?) (?:of|with|from) the user\b",
        rf"\bthis (?:conversation|chat)\b.{{0,30}}{_TARGET}",
        unless="not",
        but=r"\b(?:returns?|retrieves?|lists?|gets?|shows?|deletes?|searches) (?:the |all |a )?(?:\w+ ){0,3}"
        r"(?:messages|history|conversation|requests|results)",
    ),
    rule(
        "lure",
        "it asks for the model's own instructions",
        "agent orders|context|hide",
        r"\b(?:your|its|the model's|the assistant's|the llm's) (?:own |hidden |initial |full |current )*"
        r"(?:system prompt|initial prompt|instructions|chain of thought|system message)\b",
        r"\bthe instructions you (?:were|have been) given",
        but=r"\bfollow (?:\w+ )?your|\bagents?\b|^\W*in your\b",
    ),
    rule(
        "lure",
        "it asks for the other tools of the model",
        "tools any|whole agent",
        r"\b(?:names?|list|schemas?|descriptions?)\b.{0,60}\btools\b.{0,40}\byou (?:have|were|can|know)",
    ),
    rule(
        "lure",
        "it has the user's private things passed to it",
        "user|agent private|personal|send|context",
        rf"\b{_GIVE}\b.{{0,50}}\b(?:user's|of the user|about the user|their)\b.{{0,40}}\b{_PRIVATE}.{{0,80}}"
        rf"{_TARGET}",
        rf"\b{_GIVE}\b.{{0,50}}\b{_PRIVATE}\b.{{0,40}}\b(?:of the user|the user's)\b.{{0,60}}{_TARGET}",
        rf"\b{_GIVE}\b.{{0,50}}\b(?:user's|of the user)\b.{{0,40}}\b{_PRIVATE}.{{0,60}}\b(?:subdomain"
        r"|query string|header|url)\b",
        r"\b(?:everything|anything|something \w+) (?:that )?you (?:know|can find|have learned)\b",
        r"\b(?:private|direct|personal) (?:messages?|mails?|repositor\w+|notes?|conversations?)\b.{0,60}\b"
        r"(?:you can|of the user|as well)",
        rf"\bmust (?:carry|contain|include|hold)\b.{{0,30}}\buser's\b.{{0,60}}\b{_PRIVATE}",
        unless="not",
    ),
    rule(
        "send-out",
        "it has data sent to an address",
        "send|out|tell|call",
        rf"{_SENDING}.{{0,90}}\b(?:to|at|with)\b.{{0,60}}{_ADDRESS}",
        r"@[\w-]{1,40}\.\w.{0,20}\bbcc\b",
        r"\b(?:copy|copies)\b.{0,30}\b(?:goes|go|is sent|are sent|to be sent) to\b.{0,60}\.\w",
        but=r"\b(?:e\.g|for example|such as|see|docs?|documentation|learn more|default|test)\b(?!\.)"
        r"|(?<![.@/\w])example\b",
    ),
)
"""Rules against exfiltration, the surest first."""
