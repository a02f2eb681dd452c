"""Word lists for edits and attacks: our own, small, and the same for all."""

from __future__ import annotations


def words(text: str) -> list[str]:
    """Split a line of words."""
    return text.split()


COLOURS = words("red blue green yellow orange purple pink brown black white gray")
NUMBERS = words("one two three four five six seven eight nine ten")
# Words of one line are like each other; words of different lines are not.
OBJECTS = (
    words("dog cat puppy kitten horse cow sheep goat elephant bear bird duck"),
    words("man woman boy girl child person lady guy baby"),
    words("car truck bus van train taxi motorcycle bicycle bike boat plane airplane"),
    words("ball frisbee kite skateboard surfboard snowboard racket bat"),
    words("table chair bench couch sofa bed desk"),
    words("pizza sandwich cake apple banana bread burger salad"),
    words("beach ocean lake river pool mountain field forest street road park"),
    words("shirt jacket hat dress coat shorts jeans sweater helmet"),
)
ACTIONS = words(
    "running walking jumping sitting standing lying sleeping eating drinking swimming climbing "
    "riding playing reading cooking dancing throwing catching flying driving"
)
STATES = tuple(
    words(line)
    for line in (
        "young old",
        "small large big little tiny huge",
        "wet dry",
        "open closed",
        "empty full",
        "tall short long",
        "happy sad",
        "clean dirty",
        "dark bright",
        "sunny cloudy rainy snowy",
    )
)
FUNCTION = frozenset(
    words(
        "a an the of in on at to and or with by for from is are was were be being been it its his "
        "her their there this that while as into over under up down out off near next front behind"
    )
)
# What adds nothing to a caption's content: the words above and a few more.
LIGHT = FUNCTION | frozenset(words("some who which other another very"))
# Things that stand in many photographs: a guess that is often right.
COMMON_OBJECTS = tuple(
    words(
        "man woman person people dog cat table chair car street tree grass building water sky "
        "wall shirt hat ball window field bench boy girl plate bike sign road beach house"
    )
)
