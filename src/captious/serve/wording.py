"""What went wrong with a run, in the words of the page that it was uploaded on.

Errors of the library name options of the command line and arguments in Python. Whoever uploaded
files has neither; what is left has the names of fields and nothing to type.
"""

from __future__ import annotations

import re

_IN_PYTHON = r"(?: \((?:references|images|objects)=\.\.\. in Python\))?"
_RULES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (rf"give them with --refs FILE{_IN_PYTHON}", "upload a file under References"),
        (
            rf"give labels with --objects FILE, or pictures with --images FOLDER so that the "
            rf"detector finds them{_IN_PYTHON}",
            "upload the pictures under Photographs, so that the detector finds them",
        ),
        (
            rf"give --images FOLDER{_IN_PYTHON}, or region features of the kind .+? with "
            r"--regions FILE",
            "upload them under Photographs",
        ),
        (
            rf"give the pictures with --images FOLDER{_IN_PYTHON}",
            "upload the pictures under Photographs",
        ),
        (r"give it as references \(--refs\)", "upload it under References"),
        (r"\. --skip-unmatched leaves these captions out", ""),
    )
)


def for_the_page(text: str) -> str:
    """Return an error without options of the command line.

    Example:
        >>> for_the_page("bleu needs references, and no caption has any: give them with "
        ...              "--refs FILE (references=... in Python)")
        'bleu needs references, and no caption has any: upload a file under References'
    """
    for pattern, words in _RULES:
        text = pattern.sub(words, text)
    return text
