"""The word lists of the rules: abbreviations with their meaning, verbs, nouns, acronyms.

These are tables without logic; `maitred.mediation.words` uses them. An English word is never an abbreviation
here. An abbreviation with two meanings has words that decide between them.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet


def word_set(text: str) -> AbstractSet[str]:
    """The words of a text; a list with one word a line would be pages long."""
    return frozenset(text.split())


def _table(text: str) -> Mapping[str, str]:
    pairs = (entry.split("=") for entry in text.split())
    return {short: meaning.replace("+", " ") for short, meaning in pairs}


ABBREVIATIONS = _table("""
    acc=account acct=account addr=address admn=admin agg=aggregate alloc=allocate amt=amount anlz=analyze
    appl=application appt=appointment apptmt=appointment asgn=assign assgn=assign assoc=association
    attch=attachment attr=attribute authn=authentication authz=authorization avail=availability avg=average
    avl=availability bal=balance bckp=backup bckt=bucket bkp=backup bkt=bucket bldg=building blk=block
    brnch=branch btn=button calc=calculate canc=cancel categ=category catg=category cfg=configuration
    chan=channel chg=change chk=check chnl=channel chrg=charge clr=clear cmd=command cmnt=comment
    cmp=compare cmt=comment cncl=cancel cnt=count cntct=contact cntry=country coll=collection
    conn=connection contrib=contribution coord=coordinates cpy=copy crd=card cred=credential crt=create
    ctgry=category cust=customer db=database dbg=debug deact=deactivate decr=decrypt del=delete
    deliv=delivery dept=department desc=description descr=description dest=destination dflt=default
    dir=directory dl=download dlt=delete dnld=download dob=birth+date doc=document dpt=department
    dscr=description dst=destination dt=date dup=duplicate dur=duration elem=element eml=email emp=employee
    encr=encrypt env=environment err=error evnt=event evt=event exec=execute expr=expression fav=favorite
    feat=feature fldr=folder flg=flag fltr=filter fmt=format fname=first+name fnd=find freq=frequency
    frm=from fwd=forward gen=generate grp=group hist=history hlth=health img=image incl=include
    init=initialize ins=insert invc=invoice iss=issue itin=itinerary itm=item kwd=keyword lang=language
    lat=latitude lbl=label len=length lib=library lmt=limit lname=last+name lng=longitude lnk=link
    loc=location lon=longitude lst=list lvl=level maint=maintenance mbr=member mdl=model mgmt=management
    mgr=manager misc=miscellaneous mrk=mark msg=message mtg=meeting mth=month mv=move nbr=number nm=name
    nmbr=number notif=notification ntf=notification ntfy=notify num=number obj=object ord=order
    org=organization orig=original passwd=password pct=percent perf=performance
    perm=permission phn=phone pic=picture pkg=package pmt=payment pref=preference prev=previous prf=profile
    prfl=profile priv=private prj=project proc=process proj=project prop=property prv=private
    pswd=password pth=path purch=purchase pw=password pwd=password pymt=payment qry=query qtr=quarter
    qty=quantity rand=random rcv=receive recd=record recip=recipient recur=recurring recv=receive
    ref=reference repo=repository req=request resch=reschedule resched=reschedule reserv=reservation
    resv=reservation rfnd=refund rfrsh=refresh rgn=region rmdr=reminder rmv=remove rpt=report
    rschd=reschedule rsn=reason rsp=response rst=reset rstr=restore rsv=reserve rsvn=reservation rtn=return
    rtrv=retrieve schd=schedule sched=schedule sel=select sess=session shpmt=shipment shr=share snd=send
    src=source srch=search srt=sort srv=server srvc=service srvr=server stk=stock stmt=statement strt=start
    sts=status subscr=subscription summ=summary svc=service svr=server sys=system tbl=table tck=ticket
    tgt=target thrd=thread tkt=ticket tmp=temporary tmpl=template tot=total tpl=template trk=track
    trnsl=translate tsk=task txn=transaction txt=text typ=type tz=time+zone unsub=unsubscribe
    unsubscr=unsubscribe upd=update updt=update upl=upload upld=upload usr=user util=utility val=value
    var=variable veh=vehicle ver=version vid=video vol=volume whse=warehouse wk=week wthr=weather
    xfer=transfer yr=year zn=zone
""")
"""Abbreviation -> meaning, for those that mean the same everywhere."""

FIRST = "^"
LAST = "$"
BY_CONTEXT: Mapping[str, tuple[tuple[str, str], ...]] = {
    "ad": (("advertisement", "campaign click impression audience bid"),),
    "apt": (("appointment", "doctor calendar patient time"), ("apartment", "rent address tenant building")),
    "att": (("attachment", "file email message"), ("attendee", "event meeting calendar")),
    "br": (("branch", "repository commit merge git pull"),),
    "cal": (("calendar", "event meeting appointment date invite schedule"),),
    "cat": (("category", "product item article blog post parent shop"),),
    "ch": (("channel", "message chat user team"), ("chapter", "book page title")),
    "cp": (("copy", FIRST),),
    "cr": (("create", FIRST),),
    "cur": (("currency", "amount price payment rate balance"), ("current", "page user")),
    "dep": (
        ("deposit", "account amount bank"),
        ("dependency", "package version"),
        ("department", "employee"),
    ),
    "dev": (("device", "sensor battery serial firmware"), ("developer", "team code")),
    "est": (("estimate", "cost amount price task"),),
    "exp": (("export", FIRST), ("expense", "amount receipt cost"), ("expiry", "token card date")),
    "ext": (("extension", "file phone path"), ("external", "source system")),
    "fn": (("first name", "last customer contact"), ("function", "code argument lambda")),
    "fl": (("file", "path folder directory drive upload download delete"),),
    "gr": (("group", "user member"),),
    "inv": (
        ("inventory", "stock warehouse item quantity sku"),
        ("invoice", "amount customer due payment order bill tax client"),
        ("invite", "attendee event guest email user team member"),
    ),
    "gt": (("get", FIRST),),
    "imp": (("import", FIRST),),
    "ln": (("last name", "first customer contact"), ("line", "file number text code")),
    "ls": (("list", FIRST),),
    "mk": (("make", FIRST),),
    "mo": (("month", "year day date"),),
    "no": (("number", LAST),),
    "pg": (("page", "size limit number per"),),
    "ph": (("phone", "email name address contact user customer"),),
    "pr": (
        ("pull request", "repository branch merge commit git review"),
        ("price", "product amount currency"),
    ),
    "prod": (("product", "price item order stock quantity category"), ("production", "staging environment")),
    "q": (("query", "search find look filter list limit"),),
    "rd": (("read", FIRST), ("read", "mark notification message")),
    "rec": (("recipe", "ingredient cook meal"), ("record", "table field database audio")),
    "reg": (("register", FIRST), ("region", "country cloud")),
    "rem": (("remove", FIRST), ("reminder", "date time text")),
    "rep": (("report", "date format period"), ("representative", "sales customer")),
    "res": (
        ("reservation", "room table hotel guest restaurant flight book"),
        ("result", "search query test"),
        ("resource", "type server cloud"),
    ),
    "rev": (("review", "rating product comment pull"), ("revision", "document file version page")),
    "rm": (("remove", FIRST), ("room", "book reserve hotel meeting capacity guest building floor")),
    "sch": (("schedule", "event time meeting date"), ("schema", "table database column")),
    "st": (("street", "city zip address"), ("status", "order task issue list"), ("start", "end stop")),
    "sub": (("subscription", "plan billing customer channel"), ("subject", "email message body")),
    "temp": (("temperature", "weather sensor heat forecast"), ("temporary", "file folder directory")),
    "tr": (("translate", "language text"), ("transaction", "account amount payment"), ("track", "package")),
    "ts": (("timestamp", "time date event log from until message"),),
    "ttl": (
        ("time to live", "cache key expire seconds"),
        ("title", "event text description page book start"),
    ),
    "tx": (("transaction", "account amount payment block wallet hash"), ("text", "message")),
    "uid": (("user id", "user email profile account member phone"),),
    "ul": (("upload", FIRST),),
    "vw": (("view", FIRST),),
    "wh": (("warehouse", "stock item inventory quantity"), ("webhook", "url event secret")),
}
"""Abbreviation -> its readings, each with the words that decide for it; `^`, `$`: its place in a name."""

VERBS = word_set("""
    accept activate add aggregate allocate analyze append apply approve archive ask assign attach
    authenticate authorize backup block book build calculate call cancel change charge check clear click
    clone close commit compare compile complete compute configure confirm connect convert copy count create
    deactivate debug decline decrypt delete deploy describe detect disable disconnect dismiss download draw
    duplicate edit enable encrypt estimate evaluate execute expand explain export extract fetch fill filter
    find fix follow format forward generate get give grant handle hide import insert inspect install invite
    join kill launch leave list load lock log login logout look lookup make manage mark measure merge modify
    monitor move mute navigate notify open order parse pause pay pin place play post predict preview print
    process publish pull push put query rate read rebuild receive recommend record redeem refresh refund
    register reject release reload remove rename render replace reply report request reschedule reserve
    reset resolve restart restore resume retrieve retry return revert review revoke rotate run save scan
    schedule scroll search select send set share ship show sign sort split start stop store submit subscribe
    suggest summarize suspend synchronize tag take test toggle track transcribe transfer transform translate
    trigger type undo uninstall unlock unmute unsubscribe update upgrade upload use validate verify view
    wait watch withdraw write zoom
""")  # a list with one word a line would be pages long
"""What tools do."""

NOUNS = word_set("""
    account action activity address admin agenda agent alarm album alert amount analysis answer application
    appointment article artist asset attachment attendee attribute audience audio author automation
    availability badge balance bank banner batch bill board body booking bookmark box branch browser bucket
    budget bug button cache calendar campaign candidate card cart category channel chapter chart chat city
    class client cluster code collection color column command comment company component config configuration
    connection contact container content context contract conversation country coupon course credential
    currency customer dashboard data database dataset date day deadline deal default delivery department
    deployment description device diagram directory discount document domain draft duration element email
    employee endpoint entity entry environment error event exchange expense experiment expression favorite
    feature feedback field figure file flag flight folder font form frequency friend function game goal
    group guest guide header health history holiday hotel hour house icon identity image incident
    information ingredient input inventory invitation invoice item itinerary job journal key keyword label
    language latitude layer lead lesson letter level library license limit line link list location longitude
    machine mail manager map market meal media meeting member memory menu message metadata meter method
    metric milestone minute model module money month movie music name news node note notebook notice
    notification number object offer operation option order organization output owner package page panel
    parameter parcel part partner party passport password patch path patient payment people permission
    person phone photo picture pipeline place plan playlist point policy pool position price priority
    problem product profile program progress project property purchase quantity quarter question queue quota
    quote rating reason receipt recipe recipient recording reference region reminder repository reservation
    resource response restaurant result role room route row rule sale schema score screen screenshot script
    season seat second secret section segment sensor server service session setting shape sheet shift
    shipment shop shopping signal site size slide slot snapshot song source space sprint stage standup
    statement station statistics status step stock storage stream street string student style subject
    subscription summary supplier support survey symbol system tab table target task tax team template term
    text theme thread ticket time timer timestamp title token tool topic tournament transaction trip type
    unit url user value variable vehicle vendor venue version video visit visitor voice volume vote
    warehouse weather webhook week widget window word worker workflow workspace year zone
""")
"""The objects of those verbs."""

_OTHER = word_set("""
    about access active after all also any auth auto available avoid back background base before begin
    between birth both by checklist current daily datetime detailed details diff down each enabled end every
    external extra false filename filepath first for free from full grid has hidden high hostname id in
    include info inner into invalid is javascript kind last latest left length long low makefile many max
    maximum me middle min mine minimum monthly more my near nearby need new next nickname none not now of
    off old on one only optional or other out over own paid per previous private public random readme recent
    recurring related remote required right runtime self short simple since single some spec stat stats
    surname sync that the this timezone to today top total true typescript under unread until up upcoming
    use username valid via watchlist weekly what when where who with without yearly your
""")
KNOWN: AbstractSet[str] = VERBS | NOUNS | _OTHER
"""Words that stay as they are."""

ACRONYMS = word_set("""
    ai api aws cdn cli cpu crm css csv dns dom faq ftp gif gpu gui html http https iban id imap io ios ip
    isbn iso jpeg jpg json jwt kpi llm mcp mfa mime nft oauth ocr otp pdf png qr rest rpc rss sdk seo sha
    sip sku sla sms smtp sql ssh ssl svg tcp tls totp ttl udp ui uri url usb utc uuid vat vm vpn wsdl xls
    xml yaml zip
""")
"""Acronyms, written in capitals; `uid` and the like are abbreviations instead."""
