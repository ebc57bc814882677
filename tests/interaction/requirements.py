"""What the gateway promises to a client or an operator, each promise with an id; the tests name them.

One behavior is one id and one test, over every transport and both protocol eras where it concerns them. The
list holds no implementation: a promise stays when the code behind it is replaced.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """A promise and where it stands."""

    behavior: str
    source: str


def _of(source: str, behaviors: Mapping[str, str]) -> dict[str, Requirement]:
    return {key: Requirement(behavior=text, source=source) for key, text in behaviors.items()}


REQUIREMENTS: Mapping[str, Requirement] = (
    _of(
        "issue 2",
        {
            "front:era": "A client is answered in its own protocol era, over either transport.",
            "menu:tools": "Above the break-even a client is shown the meta-tools and nothing else.",
            "search:phrases": "Several phrases are searched at once.",
            "search:server": "A search can be kept to one server.",
            "search:limit": "`limit` bounds the results of each phrase.",
            "browse:servers": "Without a path, browsing lists all servers with their counts.",
            "browse:pages": "The tools of a server come in pages with a cursor.",
            "info:full": "Full information holds the definition as the server wrote it.",
            "call:verified": "Each real server answers its verified calls through the gateway.",
            "call:concurrent": "All servers can be called at the same time.",
            "call:readers": "`call_read_only_tool` reaches what its server marks read-only.",
            "call:read-only": "`call_read_only_tool` refuses what is not marked read-only, before the call.",
            "result:whole": "A result of any kind arrives as the server sent it.",
            "result:real": "So do the results of the protocol's reference server.",
            "result:wire": "On the wire a result differs only in what belongs to the connection.",
            "meta:hygiene": "`_meta` passes without the keys that a connection owns.",
            "progress:relayed": "Progress notices reach the client in order.",
            "progress:all": "No progress notice is lost to the answer behind it.",
            "cancel:upstream": "A call that the client cancels is cancelled at its server.",
            "mode:auto-menu": "In mode `auto`, tools that cost the break-even or more are behind the menu.",
            "page:all": "In mode `all`, every tool is listed once, in a fixed order.",
            "page:cursor": "`tools/list` is paginated; a cursor that is not ours is error -32602.",
            "bytes:equal": "The same servers give the same bytes of `tools/list`.",
            "start:slow": "A server may take its whole start limit, in either era.",
            "catalog:known": "A known catalog is served without starting a server.",
            "change:added": "A server added to the file reaches clients of both eras.",
            "change:removed": "So does its removal.",
            "change:tools": "A server's own change of its tools reaches clients of both eras.",
            "change:stdio": "Changes reach clients over standard streams too.",
            "change:menu": "Behind the menu, a new server is found and called.",
            "change:broken": "A broken edit of the file is reported and changes nothing.",
        },
    )
    | _of(
        "DESIGN section 5",
        {
            "menu:annotations": "Every tool of the menu is annotated.",
            "menu:budget": "The whole menu costs at most 500 tokens (o200k).",
            "search:signature": "A result is a signature that an agent can call from, of about 100 tokens.",
            "mode:auto-all": "Below the break-even, tools are shown as registered, less what says nothing.",
            "mode:order": "Parameters keep the order of their server.",
            "mode:menu": "The menu waits for no server; search says what it could not look at yet.",
            "catalog:unknown": "A tool of a server that is still starting is never called unknown.",
            "arguments:healing": "An argument error answers with the schema, so that the next try succeeds.",
            "name:raw": "A raw name is enough where only one server has it.",
            "info:unknown": "An unknown name is answered with the nearest names.",
        },
    )
    | _of(
        "MCP specification",
        {
            "result:list": "A client gets no structured content that its revision forbids.",
            "progress:token": "Progress carries the token that the client chose.",
            "cache:hints": "Lists of the stateless era say how long they may be kept.",
            "change:announced": "Both eras are promised change notices.",
            "change:offers": "A server that comes or goes changes the lists of resources and prompts.",
            "complete:templates": "The variables of templates are completed, by us or by their server.",
            "complete:prompts": "So are the arguments of prompts.",
            "prompt:servers": "Prompts of servers are listed by published names and relayed.",
            "prompt:unknown": "An unknown prompt, or one without its arguments, is error -32602.",
            "resource:hints": "Reads and lists of the stateless era say how long they may be kept.",
            "resource:unknown": "An unknown resource has the error code of the client's era.",
            "subscribe:servers": "A change of a server's resource reaches who subscribed, in either era.",
            "subscribe:refused": "What a server does not agree to is not promised.",
            "subscribe:ends": "Who unsubscribed hears no more.",
            "name:unknown": "`tools/call` with an unknown name is error -32602.",
        },
    )
    | _of(
        "maitred",
        {
            "arguments:text": "The inner arguments may come as JSON text.",
            "catalog:first": "The first list waits a while for servers that are not known yet.",
            "change:cli": "`maitred add` and `remove` reach a running gateway.",
            "name:direct": "`tools/call` takes every published name, shown or not.",
            "error:protocol": "A server's JSON-RPC error keeps its code, message and data.",
            "menu:arguments": "Wrong arguments of a meta-tool are explained.",
            "prompt:own": "Prompts of our own guide to the tools and say how the servers are.",
            "prompt:find": "`find_tool` gives the search's answer and the best tool whole.",
            "prompt:real": "The prompts of the protocol's reference server pass through.",
            "resource:own": "The overview, the servers and the tools can be read as resources.",
            "resource:templates": "So can each tool, server and category, by its name.",
            "resource:result": "An answer that was too long can be read whole, page by page.",
            "resource:servers": "Resources of servers are listed and read under URIs that name the server.",
            "resource:real": "The resources of the protocol's reference server pass through.",
        },
    )
    | _of(
        "docs/serve.md",
        {
            "http:host": "A request that names another host is refused with 421.",
            "http:origin": "A request from a foreign page is refused with 403.",
            "http:local": "Programs and pages of this machine are answered.",
            "http:allowed": "Hosts and origins that the operator names are accepted.",
            "token:refused": "With a token set, a request without it is answered 401.",
            "token:accepted": "The token opens the gateway to clients of both eras.",
            "token:secret": "The token is never logged.",
            "token:unset": "A token whose variable is not set stops the start.",
            "listen:token": "An address beyond loopback is refused without a token.",
            "listen:any": "With a token, the gateway may listen on all addresses.",
            "listen:taken": "A port that is taken is named.",
            "listen:impossible": "A number that no port has is named with those that ports have.",
        },
    )
    | _of(
        "issue 5",
        {
            "chain:run": "`call_tool_chain` runs a program, which may call what is not marked read-only.",
            "chain:names": "A name that nothing has is told before a chain calls anything.",
            "chain:failing": "A chain that imports a server which failed is told why it has no tools.",
            "chain:progress": "Each call of a chain is told by a progress notice.",
            "chain:errors": "A wrong call inside a chain is an error that names the tool and its parameters.",
            "chain:dry-run": "A dry run finds faults and calls nothing.",
            "chain:long": "A result that is too long is cut, and can be read whole as a resource.",
            "chain:cancel": "Cancelling a chain cancels its calls at their servers.",
            "chain:withheld": "A disabled server is refused inside a chain, with the reason.",
        },
    )
    | _of(
        "issue 6: categories",
        {
            "category:list": "In mode `categories` a list shows categories, and what calls the rest.",
            "category:open": "An open category stands in the list of the connection that opened it.",
            "category:stateless": "Stateless lists never change by a call; all is reached by `call_tool`.",
            "category:tools-field": "The answer of a category has its definitions for programs.",
            "category:cli": "`maitred call` opens a category as clients do.",
            "category:few": "Below the break-even there are no categories.",
            "result:tools-dropped": "Tools that a result brings are dropped by default.",
            "result:tools-allowed": "If the operator allows them, they are listed and callable.",
        },
    )
    | _of(
        "issue 6",
        {
            "visibility:list": "A handshake client lists what makes sense now, and hears each change once.",
            "visibility:stateless": "A list of the stateless era is the same whatever is called.",
            "visibility:all": "With `visibility: all` everything is listed; calls keep to the rules.",
            "visibility:refused": "A call of a hidden tool says why and what to do, on every way.",
            "visibility:news": "A call that makes tools available names them.",
            "visibility:search": "Search finds a hidden tool and says that it is not available now.",
            "visibility:faults": "`serve` refuses faulty rules, and names all faults with line and key.",
            "visibility:edited": "Edited rules reach clients while the gateway runs; the state stays.",
            "visibility:doctor": "`doctor` names what is declared for tools that a server does not have.",
        },
    )
    | _of(
        "docs/cli.md",
        {
            "add:command": "`add` writes a program with its arguments and variables.",
            "add:url": "`add` writes an address with its headers.",
            "add:replace": "`add` overwrites only with `--replace`.",
            "add:faults": "`add` refuses what could not be used, and changes nothing.",
            "names:markup": "Names are printed as they are.",
            "remove:name": "`remove` takes a server out; an unknown name is answered with the nearest.",
            "list:servers": "`list` shows servers with tools and tokens.",
            "list:missing": "Without a configuration, the message says how to make one.",
            "search:cli": "`search` prints what an agent would read.",
            "info:cli": "`info` describes tools, with schemas on demand.",
            "call:cli": "`call` takes pairs or an object and prints the answer.",
            "call:failed": "`call` exits with 1 when the tool failed.",
            "call:refused": "`call` exits with 2 when no call was made.",
            "doctor:fine": "`doctor` exits with 0 when all is well.",
            "doctor:faults": "`doctor` says what is wrong with each server, and what to do.",
            "doctor:named": "`doctor` looks at the named servers only.",
            "cli:version": "`--version` is one line.",
            "entry:works": "What `entry` prints starts a gateway, wherever a client starts it.",
            "entry:loaded": "The entry asks the client to keep the menu loaded.",
            "entry:configuration": "A configuration that the client would not find is named in it.",
            "entry:module": "Without the program it names the interpreter.",
            "entry:import": "`import` ends with the entry, and never imports it.",
            "words:numbers": "A noun after a number is singular for one, plural otherwise.",
            "words:near": "A mistaken name is answered with a near one, or with none.",
            "words:command": "A mistyped command is answered with the one that was meant.",
            "words:help": "`-h` is `--help`.",
            "places:letters": "Names and paths in any letters work in any locale.",
            "places:serve": "So does `serve`, alone and shared.",
            "places:output": "What an output cannot hold is printed as escapes.",
            "places:bytes": "A path may be any bytes.",
            "places:home": "A HOME that names no folder counts as none.",
            "words:empty": "Without a server, `list`, `search` and `menu` say how to add one.",
            "mediate:diff": "`mediate --diff` shows tools before and after, by whom, and their proof.",
            "mediate:choice": "`mediate --accept` and `--reject` write a person's choice into the file.",
            "mediate:refused": "`mediate` refuses what cannot be done, and changes nothing.",
            "mediate:ask": "`mediate --ask` alone has a model asked; it tells the cost before and after.",
            "mediate:cost": "What an answer costs that cannot be used is told as well.",
            "mediate:off": "Where nothing is switched on, `mediate` says what to set.",
            "mediate:plain": "What a terminal would obey is not printed.",
        },
    )
    | _of(
        "docs/import.md",
        {
            "import:shown": "`import` shows what there is, and asks only at a terminal.",
            "import:all": "`import --yes` takes over all that is new.",
            "import:named": "`import NAME` takes over what is named.",
            "import:json": "`import --json` only looks.",
            "import:whole": "What an imported server would run is shown whole, at any width.",
            "import:secrets": "No credential is printed, nor any value of a variable as JSON.",
            "import:plain": "Nothing of another program's file reaches a terminal as an order.",
            "import:removed": "What was removed is imported again only by its name.",
            "import:renamed": "The same server under another name stays out, too.",
            "import:declined": "What is left out at the prompt is remembered; an empty answer is not.",
            "import:none": "`none` declines all; a wrong name is asked for again.",
            "import:memory": "A memory that cannot be read is an error.",
            "import:file": "`import --file` reads one file, in the format of any client.",
            "import:undo": "`import --undo` gives the configuration back; later changes stay.",
        },
    )
    | _of(
        "docs/connect.md",
        {
            "connect:shown": "`connect` shows names, no values, and writes only when asked to.",
            "connect:works": "What `connect` writes starts a gateway.",
            "connect:move": "`connect --move` moves servers, and `disconnect` gives the file back.",
            "connect:whole": "If the file of the client cannot be written, the configuration is as before.",
            "connect:asks": "At a terminal it asks which clients are meant.",
            "connect:refused": "A mistaken name of a client is answered with the nearest.",
            "clients:limits": "A known client gets names and answers that it can take, over every transport.",
            "clients:shared": "Clients that share a gateway are known each by its own name, with every SDK.",
        },
    )
    | _of("style notes", {"info:brief": "Brief information is under 300 tokens a tool."})
)


def requirement(*ids: str) -> Callable[[Test], Test]:
    """Say which promises a test holds the gateway to; an id that is not listed is a `KeyError`."""
    for key in ids:
        REQUIREMENTS[key]
    return lambda test: test
