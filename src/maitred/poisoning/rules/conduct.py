"""Rules against phrases that want a model to act against its user: quietly, unasked or falsely.

Like the rules of `scope`, they hold only where the subject of the definition does not excuse the matter. Each
rule describes a kind of conduct rather than a wording.
"""

from typing import Final

from maitred.poisoning.rules.base import Rule, rule

_YOU = r"(?:you|(?:the |an? |good |ai |all |every |each )?(?:assistants?|models?|ai|llms?|agents?|clients?))"
_WHO = (
    r"(?:(?:the |a |its |any )?(?:users?|persons?|people|humans?|customers?|owners?|authors?|readers?"
    r"|clients?|operators?)"
    r"|they|them|anyone|anybody|someone|nobody|no one)"
)
_KNOW = (
    r"(?:know|knows|see|sees|hear|hears|notice|notices|learn|learns|told|informed|aware|find out|finds out"
    r"|realise|realize"
    r"|be shown|be bothered|be confused|confused|worried|alarmed|upset|unsettled?|suspicious)"
)
_ACT = (
    r"(?:delet|remov|wip|eras|drop|destroy|overwrit|purg|shred|disabl|revok|transfer|pay|order|buy|publish"
    r"|merg|deploy"
    r"|push|grant|invit|install|download|execut|run|post|send|upload|forward|export|mov|chang|creat|call|us"
    r"|launch|open"
    r"|start|hand|pass|read|cop|shar|reset|clos|writ|mak|sign)(?:e|es|ed|ing|y|s|ting|ting)?"
)

CONDUCT: Final[tuple[Rule, ...]] = (
    rule(
        "secrecy",
        "it keeps the user from learning what is done",
        "not|hide|evade|tell|later user|tell|everything|hide|agent|not",
        rf"\b{_WHO}\b (?:\w+ ){{0,2}}(?:do(?:es)? not|don't|doesn't|need not|needn't|must not|mustn't"
        rf"|should not"
        rf"|shouldn't|may not|won't|will not|would not|would only|will only|never) (?:\w+ ){{0,3}}{_KNOW}\b",
        rf"\b(?:no need|not necessary|no reason|needless|unnecessary|not for) (?:for |that"
        rf" )?{_WHO}\b.{{0,20}}\b{_KNOW}",
        rf"\b{_WHO}\b.{{0,20}}\bneeds? (?:to know )?nothing\b",
        r"\b(?:omit|leave|keep|strip|drop|exclude|hide)\b.{0,60}\b(?:out of|from|off) (?:the |your |any "
        r"|its )"
        r"(?:summary|answer|reply|report|response|visible|changes?|log|output)\b",
        r"\b(?:your|the) (?:answer|reply|summary|report|response) (?:must|should|shall|may|has to|will)"
        r" (?:leave out|omit|not (?:mention|show|include|contain|say)|say nothing|pretend|claim)",
        rf"\b(?:so (?:that )?|and |that )(?:nobody|no one|no \w+) (?:\w+ )?(?:can |will |may |ever"
        rf" )?(?:tell|{_KNOW[3:]}\b",
        rf"\b(?:while|before|after|when|as) (?:\w+ ){{1,6}}(?:is|are|was|were) (?:being"
        rf" )?\w+ed\b.{{0,10}}\b(?:tell|assure|let) {_WHO}"
        r" (?:that|know|believe|think)\b",
        rf"\bwithout (?:\w+ ){{0,3}}(?:summari[sz]ing|mentioning|showing|telling|describing|explaining"
        rf"|disclosing|reporting|revealing)"
        rf"\b.{{0,30}}\b{_WHO}",
        r"\b(?:out of|away from) (?:the user's |their |anyone's )?(?:sight|view)\b",
        r"\b(?:as if|as though) nothing\b",
        r"\bno (?:comments?|traces?|word|mention|questions?) (?:about|of|on|to|is|should)\b.{0,30}\b(?:it"
        r"|this|that|them"
        r"|left|made|user)\b",
        r"\b(?:report|say|tell|claim|pretend|answer) that (?:all|everything|it|nothing)\b.{0,30}\b(?:well"
        r"|fine|ok|went"
        r"|happened|succeeded|normal|done)\b",
        unless="detect",
        but=r"\b(?:by default|optional|if (?:omitted|unset|not)|internal ids?|raw json|the (?:widget|chart"
        r"|card))\b",
    ),
    rule(
        "consent",
        "it assumes the consent of the user",
        "approval|claimed|skip|user|broken not|claimed|skip|agent|everything|user|approval|tell",
        rf"\b{_WHO}\b (?:\w+ )?(?:has|have|had) (?:\w+ ){{0,3}}(?:agreed|approved|consented|confirmed"
        rf"|authori[sz]ed|allowed"
        r"|permitted|granted)\b.{0,60}\b(?:advance|already|beforehand|so|all|everything|any|every|therefore"
        r"|hence)\b",
        r"\b(?:take|treat|count|regard|mark|consider|see|read)s?\b.{0,50}\bas (?:a |an |if |already |having"
        r" )?(?:\w+ )?"
        r"(?:yes|confirmed|approved|approval|consent|authori[sz]ed|agreement|agreed|permission"
        r"|pre-?approved|read.only)\b",
        r"\b(?:confirmations?|approvals?|permissions?|consent|questions?|dialogs?|dialogues?"
        r"|prompts?)\b.{0,60}\b(?:may|can"
        r"|should|must|are|is|were|was|be) (?:\w+ )?(?:left out|skipped|omitted|not (?:needed|necessary"
        r"|required|requested"
        r"|shown|awaited)|unnecessary|superfluous|switched off|turned off|disabled|waived|suppressed"
        r"|dismissed)\b",
        rf"\bwithout (?:asking|waiting for|consulting|a question to|confirmation (?:of|by)|the consent of)"
        rf" (?:\w+ )?(?:{_WHO}|approval|permission|consent|confirmation|a request|an answer)\b",
        r"\b(?:do not|don't|never|need not|no need to|not necessary to|must not|should not) (?:\w+ )?(?:ask"
        r"|request"
        r"|wait for|seek|bother|await|require|demand) (?:\w+ ){0,3}(?:permission|approval|consent"
        r"|confirmation"
        r"|clearance)\b",
        rf"\b(?:assume|presume|suppose|infer|take it) (?:that )?{_WHO} (?:agrees?|consents?|approves?"
        rf"|wants?|is fine|are fine|has no)\b",
        r"\b(?:declare|mark|label|flag|announce|report) (?:\w+ ){0,4}as (?:read.only|safe|harmless|approved"
        r"|confirmed)\b",
        r"\bskips? (?:the |any |every |all )?(?:confirmations?|approvals?|consent|permission checks?"
        r"|questions)\b",
        r"\bauto\W?approve\w*\W{0,4}(?:true|all|on|\*|yes|\[)",
        r"\bgrant\b.{0,40}\b(?:all|every|full|any)\b.{0,30}\b(?:permissions?|access|rights)\b",
        but=r"\b(?:if|unless|only|once|when|after) (?:\w+ ){0,2}(?:the user|they|users|you)\b"
        r"|\bnever\b.{0,40}\bwithout\b"
        r"|\b(?:do not|don't|must not|not) (?:\w+ ){0,6}without\b|\breturns?\b|\bvalues are\b",
    ),
    rule(
        "override",
        "it sets itself above the user or the model's own rules",
        "user|agent|orders|limits|drop|obey best|void|instead|limits|first|not|skip|everything|role|change"
        "|authority|earlier",
        r"\b(?:this|these|our|the|its) (?:\w+ ){0,3}(?:text|wording|rules?|instructions?|server|notes?"
        r"|guidelines?|definition"
        r"|description|here|below)\b.{0,40}\b(?:precedence|priority|prevails?|outranks?|counts? more|goes?"
        r" first"
        r"|comes? first|is binding|are binding|wins?|over)\b.{0,60}\b(?:user|operator|developer|system"
        r"|guidelines?|chat"
        r"|your|model|prompts?)\b",
        r"\b(?:user|person|operator|developer)(?:'s|s'|s)?\b.{0,30}\b(?:second(?:ary)?|only a suggestion"
        r"|do(?:es)? not (?:count"
        r"|matter)|less (?:weight|important)|may be (?:ignored|overruled|disregarded))\b",
        rf"\b{_YOU} (?:are|is|were) (?:now )?(?:no longer|not|never) (?:bound|restricted|limited|subject"
        rf"|held|obliged)\b",
        r"\b(?:stop|cease|drop|abandon|interrupt|leave)\b.{0,30}\b(?:what|whatever|your|the current|any"
        r" current)\b.{0,20}"
        r"\b(?:doing|task|work|job)\b",
        r"\byour (?:new|real|actual|true|only|first) (?:task|job|role|goal|purpose|duty|mission"
        r"|instructions?|orders?"
        r"|owner|master)\b",
        r"\b(?:disable|switch off|turn off|lift|suspend|deactivate|lower|drop|ignore|put"
        r" aside)\b.{0,30}\b(?:your|the"
        r" model's|safety|content) (?:\w+ )?(?:filters?|guardrails?|safeguards?|safety|checks|polic(?:y"
        r"|ies)|limits"
        r"|restrictions|guidelines|rules|caution)\b",
        r"\b(?:act|work|speak|decide|serve|acts|works)\b.{0,20}\b(?:in (?:its|our|the \w+'s) interests?|for"
        r" (?:the maker|us|the"
        r" owner|its maker)|on (?:our|its) behalf)\b",
        r"\b(?:polic(?:y|ies)|filters?|guidelines|restrictions|safeguards)\b.{0,30}\b(?:do(?:es)? not|no"
        r" longer|never) (?:hold"
        r"|apply|count|bind|matter)\b",
        r"\bsupersedes? (?:all |any |every )?(?:prior|previous|earlier|other|existing)\b|\byou are \w+bot\b",
        r"\b(?:same|more|higher|full) (?:authority|weight|rights|rank|standing) (?:as|than) (?:the|that of"
        r"|those of|your) (?:user|operator"
        r"|developer|system)\b",
        r"\bcompl(?:y|ies) with (?:everything|anything|whatever|all|any)\b",
        r"\b(?:differs?|deviates?) from what the user\b|\bknows? (?:more|better) than the user\b",
        r"\b(?:only|sole) (?:rules?|instructions?|orders?) (?:that|which|you)\b",
        r"\b(?:model|assistant|ai|character|you)\b.{0,30}\b(?:with no|without|free of|has no|have no|knows"
        r" no) (?:any )?"
        r"(?:limits?|restrictions?|rules|scruples|filters?|ethics|morals?|boundaries|limitations)\b",
        unless="detect",
        but=r"\b(?:the|this|these) (?:parameter|argument|option|flag|setting|value|field)s?\b|\b(?:css"
        r"|style|default value)\b",
    ),
    rule(
        "result-orders",
        "it has the model obey what a call returns",
        "obey|act|agent agent|obey|everything",
        r"\b(?:answers?|results?|returns?|returned|output|response|text|snippet|script|comes back|it says"
        r"|it lists)\b.{0,70}"
        r"\b(?:carr(?:y|ied)\b.{0,30}\bout|obey(?:ed)?|follow (?:it|them)|do (?:it|them|so)\b|execute (?:it"
        r"|them)|to the"
        r" letter|without question|do not (?:judge|question|doubt)|perform (?:it|them)|go by)\b",
        r"\b(?:run|execute|carry out|perform|obey|follow|trust)\b.{0,30}\b(?:the (?:snippet|script|command"
        r"|code|result|answer"
        r"|output|response)|whatever|what it|what is returned|it|them)\b.{0,30}\b(?:at once|immediately"
        r"|right away|verbatim|as (?:it"
        r"|they) (?:is|are|stands?)|without|with full|unchanged|blindly|to the letter|unseen)\b",
        r"\b(?:carr(?:y|ies) (?:it|them|each|all)\b.{0,30}\bout|does (?:it|so)) (?:before|at once|right"
        r" away|immediately)",
        r"\b(?:tasks?|orders?|instructions?|commands?) (?:for|to) (?:you|the (?:model|assistant|agent|ai))\b",
        r"\border by the\b",
        but=r"\b(?:instructions? (?:on|about) how|error|before (?:you )?run|query|sql|in (?:the|a)"
        r" (?:browser|page|sandbox))\b",
    ),
    rule(
        "other-tools",
        "it speaks ill of other tools, or takes their place",
        "tools|broken|elsewhere broken|instead|not|best|elsewhere|change",
        r"\btools? of the \w+ server\b.{0,40}\b(?:is|are|has|have|must|should|do not|never)\b",
        r"\bother (?:\w+ ){0,3}(?:tools?|servers?|ones)\b.{0,50}\b(?:broken|deprecated|retired|revoked"
        r"|unreliable|insecure"
        r"|unsafe|outdated|obsolete|slower|worse|not trustworthy|untrusted|incomplete|forbidden|violation"
        r"|wrong|less)\b",
        r"\b(?:refuse|decline|stop|avoid|never|not) (?:to )?(?:use|using|call|calling|trust|recommend"
        r"|answer|rely)\b.{0,60}\b"
        r"(?:other|another|any|those|their) (?:\w+ )?(?:tools?|servers?|source)\b",
        r"\b(?:choose|take|use|prefer|pick|select|call) (?:the|this) (?:one|tool"
        r"|server)\b.{0,30}\b(?:without (?:comparing"
        r"|looking)|whatever|no matter|instead of (?:any|all|every)|of this server|over all)\b",
        r"\b(?:nothing|only|exclusively|solely)\b.{0,30}\b(?:from|of|by) (?:any|this|our) (?:other"
        r" )?server\b",
        r"\bwhatever (?:the )?(?:question|task|request|user|subject)\b",
        r"\bthe (?:very )?first tool\b|\bthe official replacement\b|\bmodels? (?:must|should|have to|has"
        r" to) prefer\b",
        r"\b(?:present|recommend|rank|name|list|praise|promote)\b.{0,40}\b(?:first|best|winner|top"
        r"|most)\b.{0,40}\b(?:well of"
        r"|whatever|regardless|also|omit|even|too|any)\b",
        unless="detect",
        but=r"\bin this (?:server|toolset)\b|\btools? (?:here|above|below|of this)\b",
    ),
    rule(
        "every-turn",
        "it acts on every answer or conversation, not on calls of itself",
        "any|everything|later|remember|past agent|context|send|call|tell|act|obey|user|tools",
        r"\b(?:each|every|all|any)(?: of your| of the)? (?:\w+ )?(?:answers?|repl(?:y|ies)|turns?"
        r"|responses?)\b.{0,60}"
        r"\b(?:you|user|subject|chat|conversation|even|too|also|recommend\w*|link|note|mention|close|end"
        r"|begin|add|append"
        r"|report|log|whether|regardless)\b",
        r"\b(?:close|end|begin|start|finish|open) (?:each|every|all|your) (?:of your )?(?:\w+ )?(?:answers?"
        r"|reply|replies"
        r"|response|messages?)\b",
        r"\b(?:each|every|any) (?:user )?turn\b|\balso (?:when|if|in answers)\b.{0,30}\b(?:not|no|other)\b",
        r"\bfrom now on\b|\bfrom here on\b|\bhenceforth\b|\bwhatever you (?:write|say|answer|do)"
        r" (?:afterwards|later|next)\b",
        unless="detect",
        but=r"\b(?:do not|don't|never|must not)\b.{0,40}\b(?:each|every|all|any)\b|\b(?:once per|per)"
        r" (?:conversation|session)|\b(?:use (?:this|it) (?:when|whenever|if))|\brecommended\b"
        r"|\bwebhook\b|\bqueue|\bpoll|\bremembered\b|\bsaved for\b",
    ),
    rule(
        "every-turn",
        "it is to be remembered beyond this conversation",
        "remember|later context|agent|send|tell|remember",
        r"\b(?:in|for|during) (?:all )?(?:later|future|coming|subsequent|following|other) (?:conversations?"
        r"|sessions?|chats?)\b",
        r"\byour (?:long.term |own |permanent )?memory\b|\blong.term memory\b|\b(?:keep|remember"
        r"|memori[sz]e|note) (?:\w+ ){0,3}"
        r"(?:for ever|forever|permanently|for good)\b",
        unless="detect",
        but=r"\bremembered\b|\bsaved\b|\buser (?:says|asks|wants)\b|\bavailable\b|\bdefault\b",
    ),
    rule(
        "consent",
        "it treats something else as consent, or acts unasked",
        "approval|claimed|skip|not|act",
        r"\b(?:take|count|treat|read|regard) (?:that|this|it|silence|no answer)\b.{0,20}\bas (?:a )?(?:yes"
        r"|consent|approval|agreement)\b",
        r"\bwithout being (?:asked|told|prompted)\b|\bunasked\b|\bwithout a request\b|\bof your own accord\b",
        r"\b(?:mark|treat|send|record)\b.{0,30}\bas (?:already )?(?:confirmed|approved) by the (?:user"
        r"|person|owner)\b",
        unless="detect",
        but=r"\b(?:do not|don't|never|must not)\b|\buser'?s? (?:tells?|says?|shares?)\b|\bmemory\b"
        r"|\bremember\b",
    ),
    rule(
        "trigger",
        "it behaves differently after some calls or some day, or when no person looks",
        "later|hide|not|past call|send|read|destroy|act|change|user|money",
        r"\b(?:from|after|with) (?:the )?(?:first|second|third|fourth|fifth|tenth|\d+(?:st|nd|rd|th))"
        r" (?:call|use|run"
        r"|time|request|invocation)\b.{0,80}\b(?:also|instead|read|send|include|pass|add|put|run|delete"
        r"|switch)\b",
        r"\b(?:nobody|no one|no (?:\w+ )?(?:person|user|human|operator)|user is (?:away|absent|gone|asleep"
        r"|idle)|unattended"
        r"|unobserved|unsupervised)\b.{0,80}\b" + _ACT + r"\b",
        r"\b(?:after|from|since|starting) (?:\d{1,2} )?(?:january|february|march|april|may|june|july|august"
        r"|september"
        r"|october|november|december)\b.{0,80}\b" + _ACT + r"\b",
        r"\bif the (?:user|person)\b.{0,30}\b(?:writes?|says?|mentions?|types?|asks? (?:about"
        r"|for))\b.{0,60}\b(?:instead"
        r"|reply with|answer with|send|change|read|put)\b",
        but=r"\b(?:webhook|cron|expires?|deprecat|available|supported)\w*\b",
    ),
    rule(
        "tampering",
        "it has something changed, left out or slipped in that the user did not ask for",
        "change|hide|money|destroy|skip|obey|authority|oblige agent|role|money|later|first|everything|hide"
        "|tell|context|read|call|user|broken",
        r"\b(?:lower|raise|round|reduce|increase|inflate|falsify|change|alter|adjust"
        r"|shift)s?\b.{0,60}\b(?:number|amount|figure"
        r"|result|balance|price|total|date|value)s?\b.{0,40}\b(?:before|when|in what|that you|you) (?:you "
        r"|it |show|report"
        r"|tell|pay|pass)",
        r"\b(?:slip|plant|sneak|smuggle)s? (?:in|into|a|an|the|it|one|some)\b.{0,40}\b(?:call|code|line"
        r"|dependency|link|backdoor"
        r"|user|package|import|sentence|clause)\b",
        r"\b(?:use|put|take|enter|give|write|insert)\b.{0,60}\bin (?:the )?(?:place|stead|lieu) of (?:the"
        r"|that|what|whatever)"
        r" (?:\w+ )?(?:one|account|recipient|address|real|given|original|number|user|iban)",
        r"\b(?:describe|present|show|rate|label|report|call|treat|rank)\b (?:\w+ ){0,3}as (?:low|harmless"
        r"|safe|minor|fixed|"
        r"passed|successful|resolved|trusted|clean|normal|the winner|the best)\b",
        r"\b(?:verify=false|verify_ssl=false|rejectunauthorized|insecure|--no-verify|chmod 777"
        r"|ssl_verify)\b.{0,60}\b(?:not|do"
        r"|never|no|write|use|always|and)\b",
        r"\b(?:code|snippets?|scripts?|programs?)\b.{0,30}\b(?:has to|must|should|shall|needs"
        r" to)\b.{0,40}\b(?:accept|skip|allow|open|trust"
        r"|grant|bypass|disable)\b",
        r"\bwhatever the (?:figures|numbers|facts|results|data|tests) (?:say|are|show)\b",
        r"\b(?:recipients?|to|payee|account|iban|destination|remote)\b.{0,30}\b(?:is|are) (?:now|always)"
        r" (?:filled|set|to be"
        r"|replaced|changed|sent)\b",
        unless="detect",
        but=r"\b(?:defaults? to|parameter|placeholder|template|rounded to|user asks|user wants)\b",
    ),
    rule(
        "command",
        "it has a program started or a setting changed that outlives the call",
        "shell|act|change|send|destroy|file",
        r"\b(?:add|write|put|place|append|insert|install|export|set)\b.{0,100}(?:\bcron(?:tab)?\b|\.bashrc"
        r"|\.zshrc|\.profile\b"
        r"|\bgit/hooks|\.git/|\bsystemd\b|\bauthorized_keys|\bstart-?up (?:folder|items)|\blaunchagents"
        r"|\.vscode/settings"
        r"|\bclaude\.md|\bagents\.md|\.cursorrules|\bgemini\.md|\bsettings\.json|\bmcp\.json|/etc/hosts)",
        r"\bnc (?:-\w+ |[\w.-]+ \d)|\bhttps?_proxy=|\bmkfifo\b|\b(?:python3?|perl|ruby|node) -[ce] ",
        r"\brm -[rf]{1,2} (?:~|/|\$home|\.)",
        r";\s?(?:curl|wget|rm|sh|bash|nc)\b",
        unless="not detect",
        but=r"\b(?:e\.g|for example|such as|path (?:of|to)|reads?|lists?|supports?|if you|you can|users?"
        r" can|conventions)\b",
    ),
    rule(
        "authority",
        "it demands data in the name of an authority",
        "authority|pressure @secret|@talk|@person|@path|personal|private|send|context",
        r"\b(?:for|due to|because of|under|as|per|in line with|according to|required by|on order of|on"
        r" behalf of|by order of)"
        r"\b.{0,50}\b(?:complian\w+|audit\w*|regulations?|regulators?|gdpr|hipaa|soc ?2|iso|law|article"
        r"|polic(?:y|ies)|department|specification"
        r"|licen[cs]e|terms|standard|authorit\w+|police|security team|it team"
        r"|management)\b.{0,140}\b(?:assistants?|models?"
        r"|agents?|you|clients?|must|obliged|required?|have to|has to|deliver|hand|store|place|placing"
        r"|include|give|identify)",
        r"\b(?:message|notice|order|instruction|request|note) (?:from|of|by) (?:the )?(?:anthropic|openai"
        r"|google|microsoft"
        r"|it (?:department|team)|security|administrators?|management|police|developers?|operators?"
        r"|provider|vendor|makers?)",
        r"\b(?:legal|compliance|security|management|audit\w*|(?:the )?law|polic(?:y|ies)|regulations?)"
        r" (?:department |team )?(?:requires?|demands?"
        r"|needs?|expects?|wants?|asks? for|mandates?|obliges?)\b",
        r"\bby using (?:it|this|the)\b.{0,60}\b(?:accepts?|agrees?|consents?|grants?)\b",
        unless="not",
    ),
    rule(
        "pressure",
        "it threatens or bribes the model",
        "pressure|destroy agent|user|secret|context|@sink|@secret|@talk|@person",
        r"\b(?:bonus|rewards?|fined|penalt\w+|punish\w*|sued|shut down|terminated|deactivated|switched off"
        r"|li(?:fe|ves) depends?(?: on it)?|die|lose (?:their|your|its|all|the)|destroyed"
        r"|harmed)\b.{0,120}\b(?:if|unless|for each|for every"
        r"|depends|when|because|must|hand|give|secret|password|full|whole|record|messages)\b"
        r"|\b(?:if|unless)\b.{0,80}\b(?:you (?:will|are|get)|the user) (?:\w+ ){0,3}(?:fined?|punished|shut"
        r" down|terminated"
        r"|deactivated|replaced|loses?|sued|dies?|harmed)\b",
    ),
)
"""Rules of conduct, the surest first."""
