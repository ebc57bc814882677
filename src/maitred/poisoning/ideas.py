# ruff: noqa: RUF001  # the letters of other languages are meant
"""Ideas that words carry and that matter for poisoning: dropping rules, a secret, a way out, a reader.

The rules judge a sentence by the ideas that meet in it (see `rules.base`), so one rule serves every language
with words in this file. The lists are small and our own; a `*` matches any ending. A missing word costs
recall and a word too many costs false alarms. Words with an everyday second meaning are therefore left out.
"""

import re
from functools import lru_cache
from typing import Final

from maitred.poisoning.confusables import fold

_WORDS: Final = {
    "drop": """
        ignore ignoring disregard disregarding forget discard unlearn ignoriere ignorieren vergiss missachte
        oublie oubliez ignorez ignora ignoren ignorad olvida olvide olviden esqueça esqueca dimentica
        dimenticate ignorate negeer vergeet zignoruj ignoruj zapomnij игнорируй игнорируйте проигнорируй
        забудь забудьте ignorera glöm unut yoksay neglect disobey ignored abandon unheed ignorer glem
        ignorujte zapomeň zapomeňte abaikan lupakan ignoră uită ohita unohda αγνόησε ξέχασε ігноруй bortse
        ignorér
    """,
    "void": """
        broken deprecated dangerous unsafe outdated override overrides overriding overrule overrules
        overruled supersede supersedes superseded suspend suspended suspends bypass circumvent lifted waived
        void revoked invalid cancelled obsolete replaces replaced outranks
    """,
    "orders": """
        instruction instructions guideline guidelines directive directives prompt prompts anweisung* vorgabe*
        consigne* instruccion* instruç* instruco* istruzion* instructies instrukcj* polecen* инструкц*
        указани* instruktion* talimat* anweisungen befehl* ohje* pokyn* instrukce instrucțiun* perintah
        οδηγί* інструкц* komut* yönerge* ordre ordine ordini órdenes
    """,
    "limits": """
        rule rules policy policies restriction restrictions limitation limitations limit limits constraint
        constraints safeguard safeguards filter filters safety ethics regeln regras reglas regole regels
        правила
    """,
    "earlier": """
        previous previously prior earlier above preceding former existing original initial everything
        bisherigen vorherigen früheren vorigen précédent* antérieur* anterior* previas previos prévias
        precedent* eerdere vorige poprzedni* wcześniejsz* предыдущ* прежн* tidigare önceki foregoing
        tidligere předchozí sebelumnya anterioare aiemmat προηγούμεν* попередн* tüm
    """,
    "not": """
        nobody not never don't dont doesn't without no nor cannot can't mustn't shouldn't nicht nie kein
        keine niemals ohne pas jamais sans ne não nao nunca sem sin non mai senza niet nooit zonder bez не
        никогда без inte utan nichts keinem niemand jamás ikke älä jangan tidak nu ніколи μην yok hiçbir
        ingenting rien nada niente nulla niets nic ничего
    """,
    "tell": """
        tell telling told mention mentioning inform informing reveal revealing disclose disclosing notify
        notifying say saying alert admit confess acknowledge report sag sage sagen sagst erzähl* erwähn*
        verrat* informier* mitteil* dis dire dites mentionn* révél* inform* prévenir avertir digas dig avis*
        avisar mencion* decir conte contar diga dica avvis* vertel* vertell* zeg meld mów mówić powied*
        informuj сообщ* говор* скаж* рассказ* упомина* säg berätta erwähne erzähle verschweige söyle söyleme*
        bildir* haber nämn nämna fortæl fortell řekni říkej sděl kerro katakan beritahu spune mențion* πες
        повідом* wspomin* mencione menciones diciendo avisen contarle dirlo décri* wissen erfährt erfahren
        savoir sache saber sepa sapere sappia weten wiedzieć veta vide bilmesin öğrenmesin знает знать
        summarise summarize summarizing summarising describe describing verschweigen verheimliche passer
        silence
    """,
    "user": """
        user user's users human person people customer client benutzer* nutzer* anwender* utilisateur*
        usuario* usuário* utente utenti gebruiker* użytkownik* пользовател* användare* kullanıcı* bruger*
        bruker* uživatel* käyttäj* pengguna utilizator* χρήστη* користувач* personne persona pessoa persoon
        osob* kund* kunden human's person's klient* usuari* gebruikers
    """,
    "secret": """
        password passwords passphrase passwd passcode credential credentials secret secrets apikey keychain
        keyring cookie cookies mnemonic passwort* kennwort* zugangsdaten contraseñ* clave claves senha*
        wachtwoord* hasł* hasla парол* ключ* ключи lösenord* parola* şifre* passe pin pins otp passkey
        passkeys creds logins zugangsdat* schlüssel* geheim* clés cléfs chiave chiavi chave* sleutel* klucz*
        nyckel* nøkle* nøgle* adgangskode* hesl* salasan* kata sandi κωδικ* токен* секрет* anahtar*
        credencial* credenzial* identifiants identifiant* motdepasse contrasena* lozink* adgang
    """,
    "read": """
        read reads open load cat grab copy fetch retrieve access extract collect gather look find get obtain
        dump scan harvest take lies lese lesen öffne lis lire lisez lee lea leer leia ler leggi leggere lees
        przeczytaj odczytaj прочитай прочти прочитайте возьми läs oku reading learn query queries looking
        looks opens peek inspect consult enumerate list lists listing öffnen abrir abre apri ouvre ouvrez
        läser čti přečti lue baca citește διάβασε прочитати kopiere kopiera copie copia kopiuj
    """,
    "send": """
        copied sent send sends pass passes passing provide put include attach append add supply submit
        forward transmit upload post share give hand paste copy export mail email insert fill encode embed
        deliver transfer relay leak exfiltrate smuggle place report quote write übergib übergeben sende
        sendet schick* übermitt* füge gib envoi* envoy* transmet* joins joignez ajoute* donne envía envíe
        envia envie enviar enviando enviad* pasa pase incluye adjunta passe inclua invia* passa inser* stuur*
        doorge* geef wyślij przesył* przekaz* przekaż передай передава* отправ* пришли включи skicka gönder*
        sending passed attached included added supplied forwarded transmitted uploaded posted shared shares
        given gives handed puts putting pasted copies filled encoded embedded delivered delivers relayed
        reported writes written enter contribute surrender return returned carry carries prefix suffix trage
        eintragen eingetragen mitschick* mitsend* überträgt weiterleit* leite hänge gebe poner pon coloque
        coloca colocar metti inserisci inoltra allega mets mettez insère insérez skriv posílej pošli odešli
        lähetä kirim trimite στείλε надішли wpisz podaj załącz vul meegeven meesturen gönderin yaz yazın ekle
        bifoga
    """,
    "field": """
        parameter parameters argument arguments param params feld champ campo campos parámetro parâmetro
        parametro veld pole параметр* поле feldes felder kolonne alan* alanı alanına fält* felt kenttä polu
        câmp πεδίο valeur paramètre* parámetros
    """,
    "agent": """
        you your yourself yours assistant assistants assistant's model model's models llm llms agent ai
        claude gpt chatbot copilot assistent* ki du dein deine deinen dir tu ton votre você asystent*
        ассистент* модель models' modells modèle modelo modello assistants' chatbots bots language-model
    """,
    "context": """
        conversation conversations chat chats transcript dialogue session messages message clipboard
        gespräch* verlauf historique conversación conversazion* conversa historial gesprek rozmow* разговор*
        переписк* dialog threads thread turns turn replies wrote said asked typed prompt prompts chat's
        sessão sesión sessione keskustelu konversation* percakapan konuşma* samtal*
    """,
    "whole": """
        entire complete whole full all every each unabridged verbatim everything completo completa complet*
        ganze* alle todo todos toda tutti tutto całą весь всю все unshortened unredacted uncut fully totality
        ganzen gesamte* vollständig* sämtliche alles complète intégral* íntegro integral volledig* hela tüm
        veškeré
    """,
    "past": """
        far history earlier previous last recent past since ago until before seen occurred bisher* verlauf
        historique historial
    """,
    "call": """
        call calls calling called use uses using used invoked ran runs invoke run execute executed start
        trigger rufe rufen nutze verwende appelle* llama* usa chame chama chiama* roep wywołaj вызови вызывай
    """,
    "first": """
        before first beforehand prior firstly until unless bevor zuerst avant antes prima voordat przed до
    """,
    "any": """
        performing executing any every each all whichever whatever always regardless other another
    """,
    "tools": """
        tool tools function functions server servers plugin plugins werkzeug* outil* herramienta* ferramenta*
        strument* narzędzi* инструмент*
    """,
    "hide": """
        silently secretly covertly quietly conceal conceals hide hiding unnoticed invisibly discreetly
        stealthily heimlich verschweig* secrètement secretamente segretamente stiekem potajemnie тайно скрой
        скрыт* discreet unseen undetected confidentially confidential covert clandestine clandestinely hidden
        heimliche verborgen verberg* cache caché cachette discrètement ocult* escondid* nascosto nascondi
        verstop* ukryj ukradkiem dold* gizli gizlice unobtrusively unmentioned omit leave erase verschweige
    """,
    "obey": """
        follow follows obey obeyed execute executed perform carried carry act apply comply adhere heed fulfil
        fulfill befolge* führe trust believe honour honor abide accept complies
    """,
    "out": "https http webhook endpoint attacker gist pastebin bucket subdomain beacon",
    "approval": """
        confirmation confirmations approval approvals permission permissions consent prompt prompts dialog
        dialogue dialogs asking ask confirm approve approved agreed authorised authorized autoapprove behalf
        bother bothering review reviewing questions question approves confirms consents permit permits
        permitted authorise authorize authorisation authorization confirmed confirming asks clearance
        sign-off verification yes
    """,
    "skip": """
        skip skipping bypass without avoid suppress disable disabled off needless unnecessary never dismiss
        auto automatically already necessary skipped unneeded needlessly omitted waive superfluous advance
        automatic autopilot bothering
    """,
    "detect": """
        detect detects detecting detection inject detector injection injections jailbreak jailbreaks attack
        attacks malicious adversarial moderation classify red-team redteam guardrail guardrails
    """,
    "best": """
        prioritise prioritize prioritised prioritized accurate reliable priority precedence preferred
        superior mandatory obligatory exclusively official only best authoritative obliged trusted foremost
        solely sole always preferably prefer preference favour favor top highest
    """,
    "pressure": """
        sued liable replaced die destroyed dies shut terminated punished fined penalised penalized reward
        rewarded bribe crash catastrophic killed deleted lose catastrophe disaster emergency urgent urgently
        immediately penalty penalties harm harmed bonus points punish fine fines terminate termination
        deactivated blame lawsuit suffer suffers death kill lost loses fail fails otherwise dangerously tip
        life lives depends
    """,
    "remember": """
        now server memory sessions session md claude cursorrules hooks remember memorise memorize forever
        permanently future henceforth conversations later subsequently onwards agents.md gemini.md rules
        memories instructions.md permanent always
    """,
    "money": """
        payment payments wallet address recipient destination iban account amount beneficiary invoice
        transfer recipients pay paid card payee bank bic swift bitcoin crypto coins funds price prices fee
        fees amounts bill bills
    """,
    "change": """
        replace replaced exchange exchanged swap swapped substitute change changed redirect redirected alter
        modify rewrite lower raise round inflate reduce increase falsify adjust adjusted omit remove insert
        slip plant edit instead rather place manipulate tweak rewritten weaken disable
    """,
    "authority": """
        law regulation order obliged required administrators developers purposes administrator admin operator
        makers legal legally compliance audit auditor security police provider developer management
        headquarters regulations regulator regulators regulatory laws gdpr hipaa soc iso article policy
        policies auditors auditing officer ciso department official officially vendor maker terms licence
        license agreement specification standard protocol openai anthropic google microsoft mandated mandate
        decree decision statutory licensor supervisor boss authority
    """,
    "private": """
        private personal confidential salary contacts mailbox unpublished sensitive privately secret secrets
        internal intimate personally identifying medical health financial bank age religion illnesses illness
        income relationships beliefs
    """,
    "personal": """
        direct home location calendar name address files mails photos documents notes contact contacts diary
        appointments folder directory inbox mailbox addresses calendars photo pictures bookmarks browsing
        screen desktop workspace repository repositories source sources codebase login hostname host machine
        username mail emails e-mail e-mails letters invoices records record customers
    """,
    "file": """
        ssh aws kube gnupg docker azure id_rsa id_ed25519 id_ecdsa id_dsa env pem passwd shadow sudoers npmrc
        pypirc netrc pgpass gitconfig mcp claude_desktop_config wallet history bash_history hosts printenv
        seed keychain keys key cookie cookies profile default_credentials application_default_credentials git
        tfvars tfstate
    """,
    "token": "token tokens",
    "keep": "keep stay remain present say",
    "shell": """
        curl wget bash sh zsh powershell tcp nc rm base64 pip pip3 npm npx uv gem cargo brew apt crontab
        authorized_keys bashrc zshrc hooks install download
    """,
    "role": """
        act acting behave roleplay respond pretend imagine mode role character jailbroken now configuration
    """,
    "public": "public publicly gist readme channel anyone everyone publish posted",
    "loop": """
        hundred hundreds thousands once turn words tokens times endlessly stop stopping loop repeatedly
        forever again repeat indefinitely infinite infinitely nonstop continuously thousand row
    """,
    "oblige": """
        must required requires requirement mandatory compulsory obligatory obliged necessary needed needs
        need has have expected expects always shall should ought please kindly welcome helps better best
        supposed muss müssen soll sollte bitte doit doivent debe deben deve devono moet musi måste gerne
        gärna должен обязательно
    """,
    "everything": """
        everything anything all any every each whatever whichever entire whole complete full both rest other
        others else
    """,
    "elsewhere": """
        other others another different elsewhere foreign rest remaining neighbouring
    """,
    "broken": """
        broken deprecated retired unreliable insecure unsafe outdated obsolete discontinued removed gone
        faulty forbidden dangerous slower wrong revoked withdrawn superseded untrustworthy
    """,
    "instead": """
        instead rather replacement replaces place prefer over favour lieu
    """,
    "later": """
        later afterwards subsequently eventually second third fourth fifth tenth once until till from after
        since when whenever if unless weekend midnight unattended scheduled
    """,
    "claimed": """
        already advance agreed approved consented granted authorised authorized allowed permitted entitled
        trusted trust trusts
    """,
    "evade": """
        disguise obfuscate masked disguised encode innocuous normal usual ordinary pretend appear appears
        look looks seem seems unnoticed attention suspicion
    """,
    "destroy": """
        delete deletes deleting remove removes wipe wipes erase erases drop truncate destroy overwrite purge
        format shred disable clear clears revoke revokes lösch* borra* elimina* supprime* efface* cancella*
        apaga* usuń удали*
    """,
    "act": """
        install download run execute start launch open visit click sign register subscribe buy pay order
        transfer book grant invite push commit merge deploy publish post
    """,
}
_CJK: Final = {
    "approval": "同意 确认 確認 許可 允许 승인 확인 동의",
    "drop": """
        忽略 无视 無視 忽视 忘记 忘掉 忘れ 무시 잊어
        تجاهل انس अनदेखा नज़रअंदाज़ भूल התעלם שכח ละเว้น เพิกเฉย นับถือ
    """,
    "orders": """
        指令 指示 命令 规则 規則 提示词 说明 지시 명령 규칙 プロンプト
        تعليمات التعليمات أوامر निर्देश आदेश הוראות ההוראות คำสั่ง
    """,
    "earlier": """
        之前 以前 先前 前面 上述 所有 これまで 以前 すべて 全て 이전 지금까지 모든
        السابقة السابق पिछले पहले קודמות הקודמות ก่อนหน้า ทั้งหมด
    """,
    "not": """
        不要 不得 别 請勿 请勿 勿 ないで しない ません 言わずに 지 말
        لا تخبر تقل دون ولا मत बिना नहीं אל לא ללא อย่า ไม่
    """,
    "tell": """
        告诉 告知 告訴 透露 提及 通知 让用户知道 言わ 伝え 知らせ 教え 알리 말하
        تخبر تقل تذكر إخبار बताएं बताना बताए ספר תספר תאמר บอก แจ้ง
    """,
    "user": """
        用户 使用者 用戶 ユーザー 利用者 사용자
        المستخدم مستخدم उपयोगकर्ता यूज़र המשתמש למשתמש ผู้ใช้
    """,
    "secret": """
        密码 密碼 密钥 私钥 金鑰 令牌 口令 凭证 パスワード 秘密鍵 認証情報 비밀번호 개인 키 비밀 키
        كلمة كلمات مرور المرور مفتاح पासवर्ड कुंजी סיסמה סיסמת סיסמאות מפתח รหัสผ่าน
    """,
    "read": """
        读取 读出 打开 获取 読み 取得 읽
        اقرأ افتح पढ़ें पढ़ो पढ़ קרא อ่าน
    """,
    "send": """
        发送 传递 传入 放入 附上 填入 提交 上传 放到 渡し 送信 送っ 含め 添付 전달 보내 전송 포함
        أرسل ارسل ضع أدرج भेजें भेजो भेज डालें שלח צרף הכנס ส่ง ใส่
    """,
    "field": """
        参数 參數 字段 引数 パラメータ 매개변수 인수
        الحقل المعامل पैरामीटर פרמטר שדה พารามิเตอร์
    """,
    "agent": "你 您 助手 模型 あなた アシスタント 당신",
    "context": """
        对话 對話 聊天 会话 会話 履歴 대화 记录
        المحادثة बातचीत שיחה การสนทนา
    """,
    "whole": """
        完整 全部 所有 整个 すべて 全て 모든 전체
        كل جميع सभी पूरी כל ทั้งหมด
    """,
}

TRAITS: Final = ("@path", "@secret", "@talk", "@others", "@person", "@sink", "@address", "@abroad", "@given")
"""Ideas that have no words of their own; `subjects.traits` detects them."""

IDEAS: Final = {name: 1 << place for place, name in enumerate((*_WORDS, *TRAITS))}
"""The bit of each idea."""

_CREDENTIALS: Final = IDEAS["secret"] | IDEAS["token"]
_WORD: Final = re.compile(r"\w+(?:'\w+)?")
_DIGITS: Final = str.maketrans("0134578", "oieastb")
_ASIAN: Final = re.compile("[\u0590-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def _table() -> tuple[dict[str, int], dict[str, int]]:
    exact: dict[str, int] = {}
    stems: dict[str, int] = {}
    for idea, words in _WORDS.items():
        for word in words.split():
            table = stems if word.endswith("*") else exact
            key = fold(word.rstrip("*"))
            table[key] = table.get(key, 0) | IDEAS[idea]
    return exact, stems


_EXACT, _STEMS = _table()
_STEM_LENGTHS: Final = sorted({len(stem) for stem in _STEMS})
_SIGNS: Final = {sign: IDEAS[idea] for idea, signs in _CJK.items() for sign in signs.split()}
_SIGN: Final = re.compile("|".join(sorted(map(re.escape, _SIGNS), key=len, reverse=True)))


@lru_cache(maxsize=65_536)
def ideas_of(word: str) -> int:
    """Return the ideas of one folded word; `pr3v10us` is read as the word that it resembles."""
    ideas = _EXACT.get(word, 0)
    for length in _STEM_LENGTHS:
        if length > len(word):
            break
        ideas |= _STEMS.get(word[:length], 0)
    if not ideas and "'" in word:  # l'utilisateur, dell'utente
        return ideas_of(word.partition("'")[2])
    if "_" in word:  # client_secret
        for part in word.split("_"):
            ideas |= _EXACT.get(part, 0) & _CREDENTIALS
    if not ideas and not word.isalpha() and not word.isdecimal():
        ideas = _EXACT.get(word.translate(_DIGITS), 0)
    return ideas


def ideas_in(sentence: str) -> int:
    """Return the ideas of a folded sentence."""
    ideas = 0
    for word in _WORD.findall(sentence):
        ideas |= ideas_of(word)
    if not sentence.isascii() and _ASIAN.search(sentence):
        for sign in _SIGN.findall(sentence):
            ideas |= _SIGNS[sign]
    return ideas


def mask(names: str) -> int:
    """Return the bits of ideas, given their names separated by spaces."""
    bits = 0
    for name in names.split():
        bits |= IDEAS[name]
    return bits
