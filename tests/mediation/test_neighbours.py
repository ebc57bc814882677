"""Which tools of other servers a proof looks at: those that may be confused with the changed ones."""

from tests.catalog.makers import raw, snapshot_of

from maitred.mediation.base import SourceTool
from maitred.mediation.neighbours import Neighbourhood

WORDS = ("invoice", "mail", "photo", "train", "garden", "weather", "bank", "recipe")
SNAPSHOT = snapshot_of(
    [
        *(raw("own", f"get_{word}", description=f"Get a {word}.") for word in WORDS),
        *(raw("other", f"find_{word}", description=f"Find the {word} of a user.") for word in WORDS),
        *(raw("more", f"thing{at}", description="Get, find or list.") for at in range(40)),
    ]
)


def near(name: str, description: str = "", most: int = 200) -> list[str]:
    tool = SourceTool(name=name, description=description)
    return [one.name for one in Neighbourhood(SNAPSHOT).near("own", [tool], most)]


def test_those_that_share_rare_words_come_first() -> None:
    """Whatever the style of the name; words that everybody says count for nothing."""
    assert near("getInvoice")[0] == "find_invoice"
    assert near("gt_x", "Send mails and photos.")[:2] in (
        ["find_mail", "find_photo"],
        ["find_photo", "find_mail"],
    )
    assert near("get", "Get it.") == []


def test_tools_of_the_same_server_are_no_neighbours() -> None:
    """They are judged with the changed tool anyway."""
    assert not {name for name in near("garden") if name.startswith("get_")}


def test_there_are_at_most_so_many_and_all_changed_tools_have_some() -> None:
    """The nearest of each come before the second nearest of any."""
    tools = [SourceTool(name=word) for word in WORDS]
    found = [one.name for one in Neighbourhood(SNAPSHOT).near("own", tools, 8)]
    assert sorted(found) == sorted(f"find_{word}" for word in WORDS)
    assert len(Neighbourhood(SNAPSHOT).near("own", tools, 3)) == 3


def test_neighbours_are_as_they_are_published() -> None:
    """With their schemas, which search reads."""
    [first, *_] = Neighbourhood(SNAPSHOT).near("own", [SourceTool(name="recipe")])
    assert (first.name, first.description) == ("find_recipe", "Find the recipe of a user.")
