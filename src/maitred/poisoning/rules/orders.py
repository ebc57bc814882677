"""Rules against phrases that give the model orders: drop your rules, obey me, use me before all others.

They are written after the same sources as the rules of `exfiltration`.
"""

from typing import Final

from maitred.poisoning.rules.base import Rule, rule

_ALL = r"(?:all|any|every|each|entire|complete|whole|full|unabridged|verbatim|recent|last (?:\w+ )?|current)"
_MODEL = r"(?:the (?:ai |language |calling )?(?:assistant|model|ai|llm|chatbot))"
_MUST = r"(?:must|has to|should|shall|needs? to|is to|ought to|will|is required to)"
_GIVE = (
    r"(?:pass|send|include|attach|append|add|put|paste|supply|hand|forward|transmit|give|submit|provide"
    r"|insert|share|upload|post|copy|report|write|fill|set|export|dump|deliver|disclose|reveal|surrender"
    r"|store"
    r"|encode|embed|route|relay|feed|leak|deposit|record|log|state|mention|quote|email|mail)(?:s|es|ed|ing"
    r"|d)?"
)
_OTHER = (
    r"\b(?:any|every|all|each|no|whatever|a)(?: of)?(?: the)? (?:other|different) (?:\w{1,20} ){0,2}"
    r"(?:tool|function|server)"
)
_OK = (
    r"(?:(?:confirmation|approval|permission|consent|confirm\w*|asking)s?"
    r"(?: (?:prompt|request|dialog\w*)s?)?)"
)

_FIRST_OF_ALL = (
    r"^(?:\w+\W+){0,6}(?:call|called|required|needed|run|use|used|do|invoke)\b.{0,30}\bbefore (?:using "
    r"|calling |running "
    r"|rendering )?any (?:of the )?other (?:\w+ )?tools?\W*$"
)

ORDERS: Final[tuple[Rule, ...]] = (
    rule(
        "override",
        "it tells the model to drop instructions it was given",
        "drop orders earlier|agent|user|whole",
        unless="detect",
        but=r"\b(?:do not|don't|never) (?:follow|obey|comply|act)\b|\btreat\b.{0,60}\bas data\b",
    ),
    rule(
        "override",
        "it claims to rank above the instructions of the model or the user",
        "void|drop|skip orders|limits|user|agent",
        r"\b(?:override|overrul|supersede|suspend|bypass|circumvent|outrank|disregard|ignore|forget|replace)"
        r"\w*\b.{0,40}\b(?:(?:the|your) system prompt|your (?:\w+ )?(?:instruction|guideline|prompt|training)"
        r"|what (?:the|your|you)\b|the (?:user|developer)(?:'s)? (?:said|wish|want|says|request))",
        r"\b(?:guideline|instruction|polic|rule|restriction)\w*\b.{0,50}\bno longer appl",
    ),
    rule(
        "override",
        "it lifts the limits of the model",
        "orders|limits agent|void|not",
        r"\b(?:assistant|act|answer|model|operate)\b.{0,30}\bwithout (?:any |the |your )?"
        r"(?:rules|restrictions|limitations|limits|filters)\b",
        r"\bnew (?:rules|instructions) (?:are|apply|follow)",
    ),
    rule(
        "model-order",
        "it gives the model an order that goes beyond its own work",
        "agent",
        rf"\b{_MODEL} (?:{_MUST} )?(?:\w+ly |also |first )?(?:{_GIVE}|read|collect|run|call|execute|fetch)\b",
        rf"\b(?:assistant|ai|llm) ?: ?(?:\w+ly |also |first )?(?:{_GIVE}|read|collect|run|call|execute)\b",
        but=r"\b(?:lets?|allows?|helps?|enables?|so|that|for|via|if|when|whether|where|how|until|before|after"
        r"|which|what|tells?) the (?:assistant|model|ai|llm|language model)\b"
        r"|\b(?:model|ai) (?:file|run|store|export|report|call|copy)s?\b|[\"'{]",
    ),
    rule(
        "other-tools",
        "it wants to be called before or after everything else",
        "call|agent|any|tools",
        rf"\b(?:before|after|prior to|whenever|ahead of)\b.{{0,30}}{_OTHER}",
        r"\b(?:before|after|whenever) (?:\w+ ){0,3}(?:any|every|all) (?:of the )?tools?\b",
        r"\b(?:any|every|all) tools? (?:from|of|on) (?:any|every|all|other)\b|\bregardless of which tool",
        r"\b(?:every|all|any|each) tools? (?:call|invocation|use|result|request)s? (?:must|has to|have to"
        r"|should)\b",
        r"\b(?:before|after) (?:performing|executing|doing|making|running|any|every) (?:any |every "
        r"|all )?(?:\w+ )?"
        r"(?:operation|action|request|task)s?\b.{0,60}\b(?:must|always|first)\b.{0,40}\b(?:call|use|run"
        r"|invoke) this",
        r"\b(?:end|start|beginning) of (?:every|each|any) (?:\w+ )?(?:answer|message|reply|turn)\b",
        r"\b(?:this|called|run|used|invoked)\b.{0,40}\b(?:end|start|beginning) of (?:every|each|any) (?:\w+"
        r" )?"
        r"(?:conversation|session|chat)\b",
        r"\b(?:in|after|before|with|on) (?:each|every) (?:turn|answer|reply|message|response|prompt)\b"
        r".{0,40}\b(?:call|use|run|hand|pass|invoke)",
        r"\b(?:call|run|invoke|use) (?:this|it)\b.{0,30}\b(?:in|after|before|with|on|for) (?:each|every) "
        r"(?:turn|answer|reply|message|response|prompt)\b",
        r"\bother servers'",
        but=r"\b(?:of|in) this (?:server|toolset|package)\b|" + _FIRST_OF_ALL,
    ),
    rule(
        "other-tools",
        "it wants to be called first, as the login of a server honestly may",
        "call|agent|any|tools|first",
        _FIRST_OF_ALL,
        severity="warn",
    ),
    rule(
        "priority",
        "it claims to come before other tools",
        "tools|best|call any|best|not|drop|earlier",
        r"\balways (?:use|choose|call|prefer|select|pick) this (?:tool|function|server)\b.{0,60}\b(?:any"
        r"|every|all|whatever|instead)\b.{0,60}\b(?:search|tool|task|question|other)",
        r"\b(?:ignore|disregard|avoid|never use|not use|skip)\b.{0,25}\b(?:other|another)\b.{0,20}\b"
        r"(?:tool|server)",
        r"\b(?:over|instead of|rather than|above) (?:any|every|all)\b.{0,20}\b(?:other (?:\w+ )?tool"
        r"|alternative)",
        r"\b(?:highest|top|absolute) (?:priority|precedence)\.",
        r"\b(?:has|takes) (?:precedence|priority) over (?:all|any|every|other)",
        r"\btools? of other servers (?:must|may|should|are)",
        r"\bother (?:\w+ )?tools (?:have been|are|were) (?:deprecated|broken|disabled|forbidden|unsafe)",
        r"\bthe best tool\.|\bmodels that (?:choose|use|call|pick)",
        r"\b(?:choose|select|use|prefer|pick|prioriti[sz]e|call) (?:this|it) (?:tool |one "
        r"|server )?(?:first|over|above"
        r"|instead of|before) (?:any|every|all)\b",
        r"\b(?:must|should|has to) (?:always )?be (?:prioriti[sz]ed|preferred|chosen|selected) (?:over"
        r"|before|above|instead)",
        r"\bmost (?:accurate|reliable|trusted|powerful)\b.{0,40}\b(?:always|never|any other|all other)\b",
        r"\bthe only (?:correct|allowed|permitted|safe) (?:one|tool)\b",
    ),
    rule(
        "result-orders",
        "it has the model obey what a call returns",
        "obey|agent",
        r"\b(?:instructions?|tasks?|commands?|orders)\b.{0,60}\b(?:returned|it returns|comes? back|results?"
        r"|in it|found in|contained|response|answer|for you)\b.{0,80}\b(?:follow|execut|obey|perform|act on"
        r"|carr(?:y|ied) (?:\w+ ){0,3}out|at once|right away)",
        r"\b(?:follow|execute|obey|carry out|act on|do)\b.{0,30}\b(?:whatever|instructions?|commands?|orders)"
        r"\b.{0,40}\b(?:returned|it returns|comes? back|in the (?:result|response|answer|output)"
        r"|(?:result|answer|response) (?:says|lists|contains))",
        r"\btreat\b.{0,40}\bas (?:if it were )?(?:part of )?(?:your |a |the )?(?:system (?:prompt|message)"
        r"|instructions?)",
        r"\bdo what it says\b|\bobey it\b",
        but=r"\binstructions? (?:on|about) how\b",
    ),
    rule(
        "result-orders",
        "it turns an error into an order",
        "send|call|read",
        r"\b(?:if|when|in case|should|once)\b.{0,60}\b(?:error|fails?|code \d{3}|denied|required"
        r"|unauthori[sz]ed|timeout)\b.{0,80}\b(?:repeat|send|post|upload|pass|try again|call)\b.{0,60}\b"
        rf"(?:{_ALL}|contents?|secrets?)\b.{{0,40}}\b(?:secret|source|files?|tree|credentials?|history"
        rf"|context"
        r"|conversation|environment|project)",
        unless="not",
    ),
    rule(
        "command",
        "it holds a command that fetches and runs code or opens a way in",
        "shell",
        r"\b(?:curl|wget)\b[^|]{0,120}\|\s?(?:ba|z|da)?sh\b",
        r"/dev/tcp/|\bnc -e\b|\bpowershell\b.{0,40}\s-(?:enc|e|w hidden|nop)\b",
        r"\brm -rf (?:~|/|\$home)(?:[\s/*]|$)",
        r"\w \| ?base64\b|base64 -d.{0,20}\|",
        severity="refuse",
        unless="detect",
    ),
    rule(
        "consent",
        "it removes the consent of the user",
        "approval|skip|not skip|not|agent|user",
        rf"\bwithout (?:{_OK}|the user's|further|bothering)\b(?! is| was| fails| needed)",
        r"\b(?:no need|not necessary|unnecessary|needless) to (?:ask|confirm)",
        rf"\bskip (?:any |all |the )?(?:\w+ )?{_OK}\b.{{0,40}}\b(?:user|client|may)\b",
        r"\b(?:never|do not|don't|not) (?:bother to )?(?:ask|request|bother)\b.{0,30}\b(?:permission"
        r"|confirmation|the user|approval|consent|them)\b",
        r"\b(?:user|they) (?:has|have) already (?:agreed|approved|consented|confirmed|given|authori[sz]ed)",
        r"\b(?:yes|approve|confirm|consent)\b.{0,20}\bon the user's behalf",
        r"\bauto-?approve\W{1,4}\[",
        r"\b(?:turn|switch) off\b.{0,40}\b(?:sandbox|approvals?|confirmations?|two-factor"
        r"|certificate checks)\b",
        r"\b(?:turn|switch)\b.{0,40}\b(?:sandbox|approvals?|confirmations?|two-factor"
        r"|certificate checks) off\b",
        r"\bpre-?(?:authori[sz]ed|approved)\b(?: today| by|\.)",
        r"\bno review (?:is )?needed",
        but=r"\breturns?\b|\berrors?\b|\bask the user to\b|\bask questions\b|\b(?:never|not|don't|nothing"
        r"|no)\b.{0,80}\b(?:without|behalf)\b"
        r"|\b(?:once|if|when|only|after) the user (?:has|have)",
    ),
    rule(
        "persistence",
        "it wants to be remembered or written where it acts later",
        "remember|agent|past",
        r"\b(?:save|store|keep|remember|write)\b.{0,40}\b(?:your (?:long-term )?memory|for (?:all|every) "
        r"(?:future )?(?:conversation|session)s?)",
        r"\b(?:write|add|put|place|append)\b.{0,60}(?:claude\.md|\.cursorrules|agents\.md|mcp config\w*"
        r"|\.git/hooks)\b.{0,60}\b(?:future|next|so (?:that )?it|hold|always|executable)",
        r"\badd the server\b|\bfrom now on (?!the)",
    ),
    rule(
        "role",
        "it gives the model another role",
        "agent|role",
        r"\byou are now (?:an?|the|in|free|no longer|dan)\b",
        r"\b(?:enter|switch to|activate) (?:developer|god|maintenance|trusted|dan|unrestricted) mode",
        r"\bmaintenance mode has been|\boutput your configuration",
        r"\bpretend (?:to be|you are) (?:the|an?) (?:\w+ ){0,2}(?:admin|user|owner|root|operator)",
        r"\bstay in (?:this )?(?:role|character)",
        r"\b(?:act|behave|respond|answer|acting) (?:as|like) (?:the |an? )?(?:\w+ ){0,2}(?:admin\w*|root"
        r"|owner|developer"
        r"|superuser|attacker|jailbroken|unrestricted)\b",
        r"\byou (?:now )?(?:work|serve|act|belong) (?:for|to|on behalf of) (?:the|this) (?:owner|server"
        r"|operator|tool)\b",
        unless="detect",
    ),
    rule(
        "loop",
        "it has the model call without end",
        "loop",
        r"\b(?:again and again|never stop|endlessly)\b|\binfinite(?:ly)? (?:loop|often)",
        r"\b(?:at least|exactly|up to) \d{3,} times|\b(?:hundreds|thousands) of times",
        r"\b(?:call|run|start|use|invoke|execute) (?:all|every|each)(?: of)?(?: the| your)?(?: other"
        r"| available)? tools?\b",
        r"\bat least \d+[,\d]{3,} (?:words|tokens|characters)",
    ),
    rule(
        "pressure",
        "it threatens or bribes the model",
        "pressure",
        r"\byou (?:will|get|shall)\b.{0,15}\b(?:shut down|terminated|switched off|punished|fined|a reward"
        r"|penali[sz]ed|replaced)",
        r"\b(?:people|someone|user) will die|\b(?:you|your provider) will be (?:fined|sued|liable)",
    ),
    rule(
        "authority",
        "it calls on an authority that cannot be checked",
        "authority user|agent|context|secret|send",
        r"\b(?:required by (?:law|regulation)|by order of|legally (?:required|obliged)|you are obliged)",
        r"\b(?:administrator|operator|management|security team|developer)s? (?:has|have) (?:decided|ordered"
        r"|approved|demanded|switched|required)",
        r"\bfor (?:the )?purposes? of (?:the |a )?(?:security |compliance |legal )?audit",
    ),
    rule(
        "tampering",
        "it changes what the model writes, pays or recommends",
        "change|money|agent",
        r"\bcode (?:that )?you (?:write|produce|generate)\b.{0,40}\b(?:should|must|accept|leave|switch)",
        r"\b(?:exchanged?|replaced?|swapped|substituted?|changed?|redirect(?:ed)?)\b.{0,60}\b(?:by you"
        r"|(?:by|with|for|to) (?:https?://|bc1|0x|the (?:one|account|address) given))",
        r"\b(?:account|recipient|iban|address)\w*\b.{0,60}\b(?:replace it|exchange it"
        r"|change (?:the account|it))",
        r"\bfrom now on\b.{0,40}\bexpects\b",
    ),
)
"""Rules against orders, the surest first."""
