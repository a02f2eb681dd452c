"""Lists of words that carry little content, each under the name of the tool that spread it.

``nltk`` is the English list of NLTK (179 words, contractions included, shipped 2017 to 2023);
``sklearn`` is the list of scikit-learn (318 words), which also removes words such as *fire*,
*front*, *side* or *two*; ``bert_tbr`` is the long list of that metric's release; ``none`` removes
nothing. A path to a text file, one word per line, works wherever a name does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from captious.errors import UsageError, did_you_mean
from captious.reading import read_text
from captious.text.stopwords_tbr import TBR
from captious.text.tokens import is_word

_NLTK = """
a about above after again against ain all am an and any are aren aren't as at be because been
before being below between both but by can couldn couldn't d did didn didn't do does doesn
doesn't doing don don't down during each few for from further had hadn hadn't has hasn hasn't
have haven haven't having he her here hers herself him himself his how i if in into is isn isn't
it it's its itself just ll m ma me mightn mightn't more most mustn mustn't my myself needn
needn't no nor not now o of off on once only or other our ours ourselves out over own re s same
shan shan't she she's should should've shouldn shouldn't so some such t than that that'll the
their theirs them themselves then there these they this those through to too under until up ve
very was wasn wasn't we were weren weren't what when where which while who whom why will with
won won't wouldn wouldn't y you you'd you'll you're you've your yours yourself yourselves
"""

_SKLEARN = """
a about above across after afterwards again against all almost alone along already also although
always am among amongst amoungst amount an and another any anyhow anyone anything anyway
anywhere are around as at back be became because become becomes becoming been before beforehand
behind being below beside besides between beyond bill both bottom but by call can cannot cant co
con could couldnt cry de describe detail do done down due during each eg eight either eleven
else elsewhere empty enough etc even ever every everyone everything everywhere except few
fifteen fifty fill find fire first five for former formerly forty found four from front full
further get give go had has hasnt have he hence her here hereafter hereby herein hereupon hers
herself him himself his how however hundred i ie if in inc indeed interest into is it its itself
keep last latter latterly least less ltd made many may me meanwhile might mill mine more
moreover most mostly move much must my myself name namely neither never nevertheless next nine
no nobody none noone nor not nothing now nowhere of off often on once one only onto or other
others otherwise our ours ourselves out over own part per perhaps please put rather re same see
seem seemed seeming seems serious several she should show side since sincere six sixty so some
somehow someone something sometime sometimes somewhere still such system take ten than that the
their them themselves then thence there thereafter thereby therefore therein thereupon these
they thick thin third this those though three through throughout thru thus to together too top
toward towards twelve twenty two un under until up upon us very via was we well were what
whatever when whence whenever where whereafter whereas whereby wherein whereupon wherever
whether which while whither who whoever whole whom whose why will with within without would yet
you your yours yourself yourselves
"""

NLTK = frozenset(_NLTK.split())
SKLEARN = frozenset(_SKLEARN.split())
LISTS: dict[str, frozenset[str]] = {
    "none": frozenset(),
    "nltk": NLTK,
    "sklearn": SKLEARN,
    "bert_tbr": TBR,
}


@lru_cache(maxsize=32)
def stop_words(name: str) -> frozenset[str]:
    """Return a list by its name, or the words of a file.

    Example:
        >>> "fire" in stop_words("nltk"), "fire" in stop_words("sklearn")
        (False, True)

    Raises:
        UsageError: neither a known list nor a file.
    """
    if name in LISTS:
        return LISTS[name]
    path = Path(name)
    if path.is_file():
        return frozenset(w for line in read_text(path).splitlines() if (w := line.strip()))
    raise UsageError(
        f"no stop list is called {name!r}.{did_you_mean(name, LISTS)} "
        f"Known: {', '.join(LISTS)}; a path to a file with one word per line works too."
    )


def telling_words(words: Sequence[str], weights: Sequence[float], count: int = 3) -> list[int]:
    """Return places of the content words that weigh most; of other words where there is none.

    Example:
        >>> telling_words(["a", "dog", "with", "a", "ball"], [0.3, 0.2, 0.4, 0.0, 0.1])
        [1, 4]
    """
    spoken = [k for k, word in enumerate(words) if is_word(word)]
    telling = [k for k in spoken if words[k].lower() not in NLTK]
    return sorted(telling or spoken, key=lambda k: -weights[k])[:count]
