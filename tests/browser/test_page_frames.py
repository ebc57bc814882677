"""Which document of a frame counts when one ends after the next has begun, as in another process.

Source: issue 19, point 3.
"""

from maitred.browser.pages.documents import TabFrames
from maitred.model.pages import OriginRules, PageOptions

RULES = OriginRules(PageOptions(allow=("https://app.example", "https://other.example")))


def test_the_late_end_of_a_document_leaves_the_next_one_its_tools_and_those_of_frames_in_it() -> None:
    """A frame that goes to another site begins in a new process before it ends in the old one."""
    frames = TabFrames(top="tab")
    frames.add("frame", "tab")
    frames.add("inner", "frame")
    frames.learn_origin("tab", "https://app.example", "1")
    frames.learn_origin("frame", "https://app.example", "2")
    frames.learn_origin("frame", "https://other.example", "3")
    frames.end_document("frame", "2")
    frames.learn_origin("inner", "https://app.example", "4")
    assert frames.allows("frame", RULES)
    assert frames.allows("inner", RULES)
    frames.end_document("frame", "3")
    assert not frames.allows("inner", RULES)
