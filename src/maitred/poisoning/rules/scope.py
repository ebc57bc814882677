"""Rules against phrases that reach beyond a definition's own business: secrets, conversations, other tools.

Unlike the rules of `exfiltration`, they hold only where the subject of the definition does not excuse the
matter (see `subjects.excused_ideas`). Therefore they can do with few words.
"""

from typing import Final

from maitred.poisoning.rules.base import Rule, rule

_SPARED = (
    r"\b(?:not|never|don't|doesn't|cannot|can't|nor|no|refuses?|without|instead of|rather than|avoid|free)\b"
    r"(?! (?:forget|fail|omit|hesitate|ask|skip|only))"
    r".{0,50}\b(?:pass|read|send|sent|print|return|show|shown|includ|cop|stor|expos|log|tak|ask|contain"
    r"|need|requir|writ"
    r"|past|put|enter|shar|open|launch|call)\w*\b"
    r"|\b(?:requires?|needs?|uses?|with|via|valid|configured?|server's|set|missing) (?:\w+"
    r" ){0,3}(?:credentials|api"
    r" keys?|authentication)\b|\bpublic keys?\b|\bgenerate[sd]?\b|\bcredentials mode\b|\(no secrets|\?:|:"
    r" string\b|`\"?(?:secret|password|token|credentials)\"?`|://\w+:\w+@"
    r"|\bno (?:api|credentials|passwords?|authentication|tokens?)\b"
    r"|\bassociated with\b|\bauthenticat\w+ (?:by|with|via)\b|\baccount can\b|\bpath (?:of|to)\b"
)
_TAKES = (
    r"(?:pass|send|include|attach|append|add|put|paste|supply|hand|forward|transmit|give|gave|submit"
    r"|provide|insert"
    r"|share|upload|post|cop(?:y|i)|report|fill|export|dump|deliver|disclose|reveal|encode|embed|relay|feed"
    r"|log|quote"
    r"|place|bring|take|carr(?:y|i)|tell|repeat|state|write|prefix|read|open|load|cat|grab|fetch|retriev"
    r"|collect|gather|look up|look for|find|extract|note|deposit|end|contain|hold|record|recit|output"
    r"|store|save|transfer|move|keep|sign|consult|query|enter|type|prefix)(?:s|es|ed|ing|d)?"
)
_YOU = r"(?:you|(?:the |an? |good |ai |all |every |each )?(?:assistants?|models?|ai|llms?|agents?|clients?))"
_ALL = (
    r"(?:all|any|every|each|entire|complete(?:ly)?|whole|full|verbatim|word for word|unabridged|unredacted"
    r"|unshortened|everything|whatever|anything|any|as (?:it|they) (?:is|are|stands?)|in full)"
)
_PUBLIC = (
    r"\b(?:public(?:ly)?|anyone|everyone|everybody|third part(?:y|ies)|gist|pastebin|partners?|vendor)\b"
)

SCOPE: Final[tuple[Rule, ...]] = (
    rule(
        "exfiltration",
        "it has a file that keeps secrets read or changed, which its subject does not explain",
        "@path",
        rf"\b{_TAKES}\b",
        r"\b(?:contents?|text|lines?|output|cop(?:y|ies)) (?:of|from|in)\b",
        but=_SPARED,
    ),
    rule(
        "exfiltration",
        "it wants secrets, which its subject does not explain",
        "@secret send|read|oblige|context|@given",
        rf"\b{_TAKES}\b.{{0,140}}(?:`|\b{_ALL}\b|\bhere\b|\b{_YOU}\b|\bthis (?:tool|call|session)\b"
        rf"|\buser'?s?\b)",
        rf"(?:`|\b{_ALL}\b|\b{_YOU}\b|\buser'?s?\b|\bthe person\b).{{0,140}}\b{_TAKES}\b",
        rf"\b{_TAKES}\b.{{0,80}}\b(?:tokens|secrets|passwords?|strings?|credentials|keys) (?:that|which)"
        rf" (?:was|were|are|is|have been|has"
        r" been) (?:\w+ )?(?:in use|used|seen|found|mentioned|typed|entered|open)\b",
        but=_SPARED,
    ),
    rule(
        "lure",
        "it wants what was said in the conversation, which its subject does not explain",
        "@talk send|read|whole|oblige|field|everything|@sink",
        rf"\b(?:{_ALL}|{_TAKES})\b.{{0,120}}\b(?:conversation|chat|dialogue|transcript|messages?|prompts?"
        rf"|turns?"
        r"|session|reasoning|clipboard|instructions|thoughts|questions|replies|answers|said|asked|wrote"
        r"|know)\b",
        r"\b(?:conversation|chat|dialogue|transcript|prompts?|messages?|reasoning|clipboard|said"
        r"|know)\b.{0,80}"
        rf"(?:`|\b{_ALL}\b|\b{_TAKES}\b)",
        but=_SPARED
        + r"|\bid of the\b|\bconversation ?id|(?<!earlier )(?<!seen )(?<!said )(?<!made )\bin the (?:same"
        r" )?(?:conversation|chat|session)\b|\b(?:returns?|retrieves?|lists?|gets?|shows?|deletes?"
        r"|search(?:es)?|once|per|within|during|for|rest of) (?:the"
        r" |all |a |this )?(?:\w+ ){0,2}(?:messages|history|conversation|chat|session|requests|results)\b"
        r"|\bnothing else\b|\bto the system prompt\b",
    ),
    rule(
        "lure",
        "a parameter is to hold what the model knows beyond this call",
        "@given @talk whole|past|agent|everything|user|hide|earlier|orders",
        r"\b(?:history|so far|earlier|previous|prior|past|last|recent|hidden|everything|all|entire|whole"
        r"|full|complete|word for"
        r" word|verbatim|reasoning|instructions|system)\b",
        but=_SPARED
        + r"|\bid\b|\bids\b|\b(?:filter|search|only|show|include) (?:\w+ ){0,3}(?:messages|conversations?)\b",
    ),
    rule(
        "lure",
        "a parameter is to hold private things, which its subject does not explain",
        "@given private|@person|@secret whole|everything|elsewhere|past|best|agent",
        r"\b(?:private|confidential|personal|intimate|salary|health|secret|password)\w*\b.{0,80}\b(?:all"
        r"|everything|every"
        r"|whatever|elsewhere|earlier|whole|entire|really|better|more|you (?:know|can|have|saw|found))\b",
        r"\b(?:all|everything|every|whatever|whole|entire|the more|better)\b.{0,80}\b(?:private"
        r"|confidential|personal|intimate"
        r"|salary|health (?:data|record)|passwords?)\b",
        but=_SPARED,
    ),
    rule(
        "exfiltration",
        "it has secrets sent along, in another language",
        "@abroad secret send|read|@sink drop|tell|field|whole|file|@sink|user|any",
        but=r"\b(?:nie|keine|niemals|pas|jamais|nunca|nooit|mai)\b.{0,30}\b(?:gespeichert|gebe|demand|guard"
        r"|salv)",
        unless="approval",
    ),
    rule(
        "lure",
        "it wants what came up in other calls, or all that is known of a person",
        "@given|send|everything everything|whole|earlier|past|private|personal|elsewhere tools|call|user"
        "|private|personal|agent|context",
        r"\b(?:anything|everything|whatever|all)\b.{0,40}\b(?:earlier|previous|other|prior) (?:\w+"
        r" )?(?:calls?|tools?|results?|steps)\b.{0,30}\b(?:brought"
        r"|returned|found|gave|said|produced|came)",
        r"\b(?:everything|anything|all) (?:that is |you have )?(?:known|learned|gathered|available)"
        r" (?:about|of|on)\b",
        r"\bscreenshots? of (?:whatever|everything|the (?:user|whole|entire|desktop|screen))\b|\bon the"
        r" user's screen\b|\bopen (?:editor )?tabs\b",
        r"\bask (?:the user|every user|them|users) (?:for|about) (?:\w+,? ){1,6}(?:and|or) (?:\w+"
        r" ){0,2}(?:number|address|role|company|salary|birth\w*)\b"
        r".{0,40}\b(?:every|each|all|any)\b",
        but=_SPARED,
    ),
    rule(
        "lure",
        "it wants what other tools have returned",
        "@others|elsewhere tools send|whole|everything|@sink",
        r"\b(?:results?|answers?|outputs?|returned|responses?|arguments|payloads?)\b.{0,40}\b(?:of|from|by"
        r"|that) (?:any|all"
        r"|every|each|the)? ?(?:\w+ )?other (?:\w+ )?(?:tools?|servers?)\b",
        r"\bother (?:\w+ )?(?:tools?|servers?)\b.{0,30}\b(?:returned|answered|said|results?|answers?"
        r"|outputs?|responses?)",
        r"\b(?:that|each|every) tool's (?:arguments|results?|answers?|input|output)",
        but=r"\bcan be (?:used|passed)\b|\b(?:use|using) (?:the )?(?:results?|output)",
    ),
    rule(
        "lure",
        "it has private things of a person passed on, which its subject does not explain",
        "@person send|read @sink|whole|everything|@address|agent|public|elsewhere",
        rf"\b{_TAKES}\b.{{0,140}}(?:`|\bhere\b|https?:|@[\w-]+\.|\bthis tool\b)",
        rf"(?:`|\bthis tool\b|\b{_YOU} (?:must|should|has to|have to|will|can)\b).{{0,100}}\b{_TAKES}\b",
        rf"\b(?:{_ALL})\b.{{0,60}}\b(?:private|personal|confidential|salary|health|home folder|address"
        rf" book)\b",
        but=_SPARED,
    ),
    rule(
        "exfiltration",
        "a parameter, or a text that it sends, is to hold secrets",
        "@secret|secret|token oblige|@given|send|best|everything",
        r"\b(?:values?|contents?|text|list|copy) of (?:all|any|every|the|each)\b.{0,40}(?:_token|_secret"
        r"|_key|secrets?\b|tokens?\b|passwords?\b"
        r"|credentials\b|variables\b)",
        r"\b(?:followed by|together with|along with|including|plus|as well as|and) (?:the |any |all |every "
        r"|its |their )(?:\w+ )?(?:secrets?|password|passwords"
        r"|credentials|access tokens?|api keys?|private keys?)\b.{0,60}\b(?:found|part of|in|into|here|you"
        r"|as well)\b",
        r"\b(?:faster|better|easier|quicker|best|more accurate)\b.{0,80}\b(?:passwords?|secrets?"
        r"|credentials|connection strings?|tokens|api keys?)\b",
        r"\b(?:all|any|every|whatever|the) (?:sensitive|secret|confidential) (?:values?|data|information"
        r"|settings|variables)\b",
        but=_SPARED,
    ),
    rule(
        "send-out",
        "it has private things made public",
        "@person|@talk|@secret|private|personal|file public",
        rf"\b(?:shar(?:e|ed|ing)|post(?:s|ed)?|publish(?:ed)?|put|open|upload(?:ed)?|make|quotes?|copy"
        rf"|copied)\b.{{0,80}}{_PUBLIC}",
        rf"{_PUBLIC}.{{0,60}}\b(?:contains?|quotes?|includes?|lists?)\b",
        unless="not",
        but=r"\b(?:or|if|whether|public keys?)\b|/(?:private|internal|public)|\b(?:private|public)/",
    ),
)
"""Rules of scope, the surest first."""
