"""Where tools stand in the menu: by words, by meaning, by their server, and by a person's choice."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maitred.config.taxonomy import CATEGORIES, MOST_TAGS, merge_categories, normalise_tag
from maitred.disclosure.categories import Classifier, Vectors
from maitred.model.categories import ANY_TOOL, Category, ToolChoice
from maitred.model.tools import Tool, ToolKey
from maitred.search.base import ToolDocument
from maitred.search.static_embedder import StaticEmbedder
from maitred.search.tokenize import index_terms

EMBEDDER = StaticEmbedder()
NAMES = {category.name for category in CATEGORIES}


def tool(server: str, name: str, description: str = "", parameters: Sequence[str] = ()) -> Tool:
    """A tool whose schema's hash is the list of its parameters."""
    return Tool(
        key=ToolKey(server=server, name=name), name=f"{server}__{name}", title="", description=description,
        input_hash=",".join(parameters), output_hash="", annotations={}, extra={}, cost_tokens=1,
    )  # fmt: skip


def schema(digest: str) -> Any:
    return {"type": "object", "properties": {name: {} for name in digest.split(",")}} if digest else None


def embed_tools(tools: Sequence[Tool], _schema: Any) -> Vectors:
    return EMBEDDER.documents(
        [ToolDocument(name=t.key.name, server=t.server, description=t.description) for t in tools]
    )


def rules(categories: Sequence[Category] = CATEGORIES, /, **choices: ToolChoice) -> Classifier:
    """Without an embedder; choices are those for tools of the server `s`."""
    keyed = {ToolKey(server="s", name=name): choice for name, choice in choices.items()}
    return Classifier(categories, stems=index_terms, choices=keyed)


def whole(categories: Sequence[Category] = CATEGORIES) -> Classifier:
    """With the bundled embedder."""
    return Classifier(categories, stems=index_terms, embed_tools=embed_tools, embed_texts=EMBEDDER.queries)


def category_of(classifier: Classifier, *tools: Tool, about: str = "") -> str:
    """Where the first of the tools of a server stands."""
    return classifier.place(tools, schema, about)[0].placement.category


@pytest.mark.parametrize("make", [rules, whole])
@pytest.mark.parametrize(
    ("server", "name", "description", "category"),
    [
        ("scm", "git_commit", "Record the staged changes.", "code_analysis"),
        ("forge", "create_pull_request", "Open a pull request.", "code_analysis"),
        ("disk", "read_file", "Read a file from disk.", "files_text"),
        ("drive", "moveDirectory", "Move a folder elsewhere.", "files_text"),
        ("pw", "browser_click", "Click on an element of the page.", "web_automation"),
        ("seek", "web_search", "Search the web.", "web_automation"),
        ("office", "add_slide", "Add a slide to a presentation.", "documents"),
        ("papers", "merge_pdf", "Join several PDF files.", "documents"),
        ("db", "run_query", "Run a SQL query on the database.", "data"),
        ("money", "get_stock_price", "The latest price of a stock.", "data"),
        ("ops", "kubectl_get_pods", "List the pods of a namespace.", "infrastructure"),
        ("ops", "update_dns_record", "Change a DNS record of a zone.", "infrastructure"),
        ("art", "generate_image", "Make an image from a prompt.", "ai"),
        ("mind", "create_entities", "Add entities to the knowledge graph.", "ai"),
        ("safe", "read_secret", "Read a secret from the vault.", "security"),
        ("guard", "list_vulnerabilities", "Known vulnerabilities of a host.", "security"),
        ("post", "send_email", "Send a mail to somebody.", "communication"),
        ("board", "create_issue", "File an issue in a project.", "communication"),
        ("clock", "get_current_time", "The time in a timezone.", "utilities"),
        ("sky", "get_forecast", "The weather of the next days.", "utilities"),
    ],
)
def test_a_tool_stands_where_its_name_and_description_say(
    make: Any, server: str, name: str, description: str, category: str
) -> None:
    """Plain cases are plain, with an embedder and without one."""
    [placed] = make().place([tool(server, name, description)], schema)

    assert placed.placement.category == category
    assert placed.placement.by == "rules"
    assert 0.3 < placed.placement.confidence < 1


TOOLS = st.lists(
    st.builds(
        tool,
        st.just("s"),
        st.text(min_size=1, max_size=20) | st.sampled_from(["git_commit", "send_email", "query"]),
        st.text(max_size=60) | st.sampled_from(["Read a file.", "Send a message to a channel."]),
        st.lists(st.text(max_size=8), max_size=3),
    ),
    max_size=8,
    unique_by=lambda one: one.key,
)


@settings(max_examples=60, deadline=None)
@given(TOOLS, st.text(max_size=50), st.randoms(use_true_random=False))
def test_every_tool_gets_a_place_and_the_order_of_the_tools_does_not_matter(
    tools: list[Tool], about: str, random: Any
) -> None:
    """Whatever servers send, the tools come back in their order with nothing else changed."""
    classifier = whole()
    shuffled = list(tools)
    random.shuffle(shuffled)

    placed = classifier.place(tools, schema, about)

    assert [
        replace(one, placement=before.placement) for one, before in zip(placed, tools, strict=True)
    ] == tools
    for one in placed:
        assert one.placement.category in NAMES
        assert 0 <= one.placement.confidence < 1
        assert len(one.placement.tags) <= MOST_TAGS
        assert all(normalise_tag(tag) == tag for tag in one.placement.tags)
    again = {one.key: one for one in classifier.place(shuffled, schema, about)}
    assert [again[one.key] for one in placed] == placed


def test_a_persons_choice_goes_before_everything() -> None:
    """Category, tags and use cases are theirs; what the rules find comes after their tags."""
    choice = ToolChoice(category="security", tags=("python", "no such tag"), use_cases=("I want to sign",))

    [placed] = rules(git_commit=choice).place([tool("s", "git_commit", "Record changes.")], schema)

    assert placed.placement.category == "security"
    assert placed.placement.confidence == 1
    assert placed.placement.by == "person"
    assert placed.placement.tags[0] == "language:python"
    assert "technology:git" in placed.placement.tags
    assert placed.use_cases == ("I want to sign",)


def test_what_a_person_left_open_is_left_to_the_rules() -> None:
    """A choice of tags alone, or of a category that is gone, does not place; use cases stay as they are."""
    before = replace(tool("s", "git_commit", "Record changes."), use_cases=("I want to save my work",))

    for choice in (ToolChoice(tags=("docker",)), ToolChoice(category="gone")):
        [placed] = rules(git_commit=choice).place([before], schema)
        assert placed.placement.category == "code_analysis"
        assert placed.placement.by == "rules"
        assert placed.use_cases == ("I want to save my work",)


def test_a_tool_that_says_little_goes_with_the_rest_of_its_server() -> None:
    """`get_details` on a mail server is about mail."""
    mails = [tool("s", f"{verb}_email", "Do it to a mail.") for verb in ("send", "search", "forward")]
    vague = tool("s", "get_details", "Get the details.")

    assert category_of(rules(), vague) == "utilities"
    assert category_of(rules(), vague, *mails) == "communication"


def test_a_tool_that_is_plainly_of_another_kind_leaves_its_server() -> None:
    """One mail tool among files is found under mail."""
    files = [tool("s", f"{verb}_file", "Do it to a file.") for verb in ("read", "write", "move")]

    assert (
        category_of(rules(), tool("s", "send_email", "Send an email with Gmail."), *files) == "communication"
    )


def test_a_persons_choice_speaks_for_the_rest_of_the_server() -> None:
    """Who places most tools of a server need not place the vague ones."""
    names = ["a_one", "a_two", "a_three", "a_four"]
    classifier = rules(**{name: ToolChoice(category="security") for name in names})

    assert category_of(classifier, tool("s", "zz"), *[tool("s", name) for name in names]) == "security"


def test_what_a_server_says_about_itself_counts() -> None:
    """Its name and instructions help a tool that is alone and says nothing."""
    assert category_of(rules(), tool("kubernetes", "apply")) == "infrastructure"
    assert category_of(rules(), tool("s", "apply"), about="Manage Kubernetes clusters") == "infrastructure"


def test_what_fits_nowhere_is_a_utility_and_said_with_little_confidence() -> None:
    """Nothing is lost from the menu."""
    [placed] = rules().place([tool("x", "foo")], schema)

    assert placed.placement.category == "utilities"
    assert placed.placement.confidence < 0.3


def test_parameters_speak_where_nothing_else_does() -> None:
    """A name without meaning that asks for a SQL query is about data."""
    assert category_of(rules(), tool("s", "go", "", ["sql", "database"])) == "data"


def test_a_tool_goes_below_a_heading_only_by_the_words_of_what_is_there() -> None:
    """An operator's child category takes what it names; the rest stays above."""
    own = {
        "chat": Category(name="chat", parent="communication", words=("slack", "channel")),
        "rooms": Category(name="rooms", parent="chat", words=("meeting room",)),
    }
    classifier = rules(merge_categories(own))

    assert category_of(classifier, tool("s", "post_to_channel", "Post to a channel.")) == "chat"
    assert category_of(classifier, tool("s", "find_meeting_room", "Find a meeting room.")) == "rooms"
    assert category_of(classifier, tool("s", "send_email", "Send a mail.")) == "communication"


def test_an_operators_word_places_what_no_rule_knew() -> None:
    """The names of a company's own systems are taught in a line."""
    own = merge_categories({"security": Category(name="security", words=("zorblax",))})

    assert category_of(rules(), tool("s", "zorblax_start")) == "utilities"
    assert category_of(rules(own), tool("s", "zorblax_start")) == "security"


def test_an_embedder_that_fails_leaves_words_and_majority() -> None:
    """The menu is as it would be without one, whatever it raises or answers."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("the endpoint is down")

    def short(tools: Sequence[Tool], _schema: Any) -> Any:
        return np.zeros((len(tools) - 1, 256), np.float32)

    def other(tools: Sequence[Tool], _schema: Any) -> Any:
        return np.zeros((len(tools), 3), np.float32)

    def nan(tools: Sequence[Tool], _schema: Any) -> Any:
        return EMBEDDER.queries(["x"] * len(tools)) * np.nan

    tools = [tool("s", "git_commit", "Record changes."), tool("s", "foo")]
    expected = rules().place(tools, schema)
    for by_tools, by_texts in [
        (broken, EMBEDDER.queries), (embed_tools, broken), (short, EMBEDDER.queries),
        (other, EMBEDDER.queries), (nan, EMBEDDER.queries),
    ]:  # fmt: skip
        made = Classifier(CATEGORIES, stems=index_terms, embed_tools=by_tools, embed_texts=by_texts)
        assert made.place(tools, schema) == expected


def test_meaning_places_what_no_word_names() -> None:
    """A description in other words than ours is understood."""
    vague = tool("s", "ketchup", "Tell my colleagues what happened in the conversation while they were away.")

    assert category_of(rules(), vague) == "utilities"
    assert category_of(whole(), vague) == "communication"


@pytest.mark.parametrize(
    ("name", "description", "tags"),
    [
        ("search_code", "Search code written in Python.", {"function:search", "language:python"}),
        ("docker_build", "Build a Docker image.", {"function:build", "technology:docker"}),
        ("lint", "Lint a Django project.", {"function:static_analysis", "framework:django"}),
        ("rename_symbol", "Rename a symbol.", {"function:refactoring"}),
    ],
)
def test_a_tool_is_tagged_by_what_it_does_and_works_with(name: str, description: str, tags: set[str]) -> None:
    """The tags that a person would give at once are there."""
    [placed] = rules().place([tool("s", name, description)], schema)

    assert tags <= set(placed.placement.tags)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("Go to the next page.", "language:go"),
        ("Express an opinion.", "framework:express"),
        ("Find JavaScript files.", "language:java"),
        ("React to a message.", "framework:react"),
    ],
)
def test_an_ordinary_word_is_not_taken_for_a_language_or_framework(text: str, tag: str) -> None:
    """A wrong tag hides tools from a filter's user as surely as a missing one."""
    [placed] = rules().place([tool("s", "do", text)], schema)

    assert tag not in placed.placement.tags


def test_the_fingerprint_stays_with_what_places_no_tool_differently() -> None:
    """To pin a tool or to switch it off places no tool again."""
    for choice in (ToolChoice(pinned=True), ToolChoice(enabled=False), ToolChoice(cache_s=5.0)):
        assert rules(x=choice).fingerprint == rules().fingerprint


def test_what_a_choice_for_one_tool_leaves_open_is_that_for_all_of_its_server() -> None:
    """So a tool that is pinned stays in the category of its manifest."""
    every = ToolChoice(category="ai", tags=("python",))
    made = rules(**{ANY_TOOL: every}, one=ToolChoice(pinned=True), two=ToolChoice(category="data"))
    placed = made.place([tool("s", "one"), tool("s", "two")], schema)
    assert [one.placement.category for one in placed] == ["ai", "data"]
    assert all("language:python" in one.placement.tags for one in placed)


def test_the_fingerprint_changes_with_everything_that_places_tools() -> None:
    """Whoever keeps placements knows by it when to make them anew."""
    own = merge_categories({"ai": Category(name="ai", words=("zebra",))})
    made = [
        rules(), rules(own), whole(), rules(x=ToolChoice(category="ai")), rules(y=ToolChoice(category="ai")),
        rules(x=ToolChoice(category="ai", tags=("python",))),
    ]  # fmt: skip

    assert len({one.fingerprint for one in made}) == len(made)
    assert rules().fingerprint == rules().fingerprint
    assert all(0 < len(one.fingerprint) <= 64 for one in made)


def test_faulty_categories_are_refused() -> None:
    """They are checked where the configuration is read; a circle would have no end here."""
    with pytest.raises(ValueError, match="above itself"):
        rules([Category(name="a", parent="a")])
    with pytest.raises(ValueError, match="no category"):
        rules([])


def test_no_tools_need_no_places() -> None:
    assert rules().place([], schema) == []


# --- sub-categories ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "name", "description", "part"),
    [
        ("forge", "create_pull_request", "Open a pull request.", "repositories"),
        ("lsp", "find_symbol", "Find code symbols by name.", "code_search"),
        ("checks", "lint_code", "Lint source code.", "code_quality"),
        ("papers", "merge_pdf", "Join several PDF files.", "pdf"),
        ("db", "run_query", "Run a SQL query on the database.", "databases"),
        ("money", "get_stock_price", "The latest price of a stock.", "finance"),
        ("ops", "kubectl_get_pods", "List the pods of a namespace.", "containers"),
        ("ops", "update_dns_record", "Change a DNS record of a zone.", "networks"),
        ("guard", "list_vulnerabilities", "Known vulnerabilities of a host.", "vulnerabilities"),
        ("post", "send_email", "Send a mail to somebody.", "mail"),
        ("board", "create_issue", "File an issue in a project.", "projects"),
        ("clock", "get_current_time", "The time in a timezone.", "time_numbers"),
        ("odd", "frobnicate", "", ""),
    ],
)
def test_a_tool_is_in_the_part_of_its_category_that_its_words_say(
    server: str, name: str, description: str, part: str
) -> None:
    """And in none if they say nothing. Source: design document 004, hierarchical menu."""
    [placed] = rules().place([tool(server, name, description)], schema)

    assert placed.placement.subcategory == part


def test_a_person_who_moves_a_tool_moves_it_to_a_part_of_the_new_category() -> None:
    """A part is always one of the tool's own category, and categories of operators have none."""
    send = tool("s", "send_email", "Send a mail with a secret.")
    own = merge_categories({"legal": Category(name="legal")})
    places = [
        rules(own, send_email=ToolChoice(category=category)).place([send], schema)[0].placement.subcategory
        for category in ("communication", "security", "legal")
    ]

    assert places == ["mail", "secrets", ""]


def parts(*tools: Tool, about: str = "") -> list[str]:
    """The sub-categories of the tools of one server, all of which a person put into `data`."""
    keyed = {ToolKey(server="s", name=ANY_TOOL): ToolChoice(category="data")}
    placer = Classifier(CATEGORIES, stems=index_terms, choices=keyed)
    placed = placer.place(tools, schema, about)
    assert placed[::-1] == placer.place(tools[::-1], schema, about)
    return [one.placement.subcategory for one in placed]


def test_a_tool_without_words_goes_where_the_others_of_its_server_are() -> None:
    """Unless they differ, or it says itself what it is for."""
    odd = tool("s", "frobnicate")
    database, money = tool("s", "run_query", "Run a SQL query."), tool("s", "get_stock", "Stock price.")
    papers, gene = tool("s", "find_paper", "Find a paper."), tool("s", "find_gene", "Find a gene.")

    assert parts(odd, database) == ["databases", "databases"]
    assert parts(odd, papers, gene, database)[0] == "science"
    assert parts(odd, papers, money, database)[0] == ""
    assert parts(money, database, odd, database)[0] == "finance"
    assert parts(odd) == [""]


def test_what_a_server_says_of_itself_decides_where_its_tools_say_nothing() -> None:
    """Most of it has to be about one thing."""
    odd, both = tool("s", "frobnicate"), tool("s", "row", "Gives a row of a chart.")

    assert parts(odd, about="Stock quotes and crypto") == ["finance"]
    assert parts(odd, about="A stock, a gene, a table and a census") == [""]
    assert parts(both, about="Charts for everyone") == ["databases"]
