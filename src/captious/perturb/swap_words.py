"""Words that may stand for each other in a caption, for the text-component test.

Families of groups: the words of one group mean nearly the same, the groups of one family mean
different things of one kind. Replacing a word inside its group keeps the caption true (a *similar*
swap), replacing it by a word of another group of the family makes it false (a *different* swap).
Each line is a family, groups are separated by ``|``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from captious.text.synsets import WordTables

OBJECTS = """
man gentleman guy | woman lady | boy lad | girl lass | baby infant toddler
men guys gentlemen | women ladies | boys lads | girls lasses | children kids youngsters
dog hound pup | cat kitty feline | horse pony | cow cattle | sheep lamb | bird fowl | monkey ape
car automobile | truck lorry | bicycle bike | motorcycle motorbike | boat ship vessel
airplane plane jet aircraft | bus coach | couch sofa | chair seat | bed mattress | table desk
street road | field meadow pasture | beach shore seashore | forest woods | mountain hill
house home | store shop | building structure | bridge overpass | tent canopy
hat cap | shirt top | jacket coat | dress gown | pants trousers | shoes boots
ball football | camera camcorder | bottle flask | cup mug | book novel | phone telephone
"""

ACTIONS = """
running jogging sprinting | sitting seated | sleeping napping | eating dining | swimming bathing
walking strolling | jumping leaping | standing posing | climbing scaling | throwing tossing
runs jogs sprints | sits rests | sleeps naps | eats dines | swims bathes | flies soars
walks strolls | jumps leaps | stands poses | climbs scales | rides cycles | throws tosses
talking chatting speaking | shouting yelling screaming | laughing giggling | crying weeping
holding carrying | pushing shoving | pulling dragging tugging | catching grabbing
watching observing | looking staring gazing | playing frolicking | working labouring
"""

COUNTING = """
one single | two couple | three trio | four | five | six | several many numerous
"""

COLOUR = """
red crimson scarlet | blue navy azure | green emerald | yellow golden | black dark | white ivory
brown tan chestnut | orange tangerine | pink rose | purple violet | gray grey silver
"""

STATE = """
happy cheerful joyful smiling | sad unhappy crying | angry mad furious
old elderly aged | young youthful | large big huge | small little tiny | tall high | short low
wet soaked damp | dry arid | empty vacant bare | full crowded packed | open opened | closed shut
dirty muddy filthy | clean tidy spotless
"""

FAMILIES: dict[str, str] = {
    "object": OBJECTS,
    "action": ACTIONS,
    "counting": COUNTING,
    "colour": COLOUR,
    "state": STATE,
}
PROPERTIES = ("counting", "colour", "state")


def groups(kind: str) -> list[list[list[str]]]:
    """Families of one kind, as lists of groups of words."""
    lines = [line for line in FAMILIES[kind].splitlines() if line.strip()]
    return [[group.split() for group in line.split("|")] for line in lines]


def widened(kind: str, vocabulary: Iterable[str], tables: WordTables) -> list[list[list[str]]]:
    """Families with the words of a vocabulary that WordNet knows as synonyms of one group.

    A word that shares a synset with two groups, or none, stays out. WordNet also lists rare senses:
    the wider lists have more words and more errors than ours.
    """
    families = groups(kind)
    known = {word for family in families for group in family for word in group}
    senses = [
        (group, frozenset[int]().union(*map(tables.synsets, group)))
        for family in families
        for group in family
    ]
    for word in sorted(set(vocabulary) - known):
        mine = tables.synsets(word)
        hits = [group for group, theirs in senses if mine & theirs]
        if len(hits) == 1:
            hits[0].append(word)
    return families
