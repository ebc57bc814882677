"""Sub-categories as data: names that no category has, words that point somewhere."""

from maitred.config.subcategories import SUBCATEGORIES, subcategories_of
from maitred.config.taxonomy import CATEGORIES, check_categories, merge_categories
from maitred.model.categories import Category


def test_every_built_in_category_has_parts_with_names_of_their_own() -> None:
    """Each name is one place in the menu. Source: docs/menu.md, "Categories"."""
    parts = subcategories_of(CATEGORIES)
    names = [part.name for part in parts]

    assert [*SUBCATEGORIES] == [category.name for category in CATEGORIES]
    assert len({*names, *SUBCATEGORIES}) == len(names) + len(CATEGORIES)
    assert all(3 <= len(group) <= 7 for group in SUBCATEGORIES.values())
    assert check_categories([*CATEGORIES, *parts]) == []
    assert all(part.words for part in parts)


def test_a_category_of_the_operator_goes_before_a_part_of_its_name() -> None:
    """Nothing that an operator configured means something else."""
    own = merge_categories({"databases": Category(name="databases", parent="data")})

    assert "databases" not in {part.name for part in subcategories_of(own)}
    assert "finance" in {part.name for part in subcategories_of(own)}
