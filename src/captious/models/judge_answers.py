"""Asking a vision-language model behind an OpenAI-compatible address, and keeping what it said.

Every answer is a line of a JSON-lines file, found by everything that decides it (model, question,
photograph), so that a run can be repeated without the model: published numbers can be verified
from the stored answers alone. The key of the service is read from the environment
(``CAPTIOUS_JUDGE_KEY`` or ``OPENAI_API_KEY``) and is written nowhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from captious.errors import CaptiousError, InputError, UsageError
from captious.reading import parse_json, read_text

TRIES = 3
TIMEOUT = 120.0
_PAUSE = 1.0
_LARGEST = 4_000_000  # bytes of an answer
_RATING = re.compile(r"(?<![\d.])(?:1(?:\.0+)?|0?\.\d+|0)(?![\d])")
_TEN = tuple("0123456789")
_MISUNDERSTOOD = frozenset({400, 422})
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})

Token = tuple[str, dict[str, float]]
"""A token that was written, and the probabilities of what could have stood there."""


class NoAnswer(CaptiousError):
    """The service did not answer one question."""


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
        text: prompt with the caption in it.
        digest: what the photograph is known by.
        picture: the photograph, encoded; not part of the key.
    """

    text: str
    digest: str
    picture: bytes = field(repr=False, compare=False, default=b"")

    def key(self, model: str) -> str:
        """Return the name of the answer."""
        whole = json.dumps([model, self.text, self.digest])
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Answer:
    """What the model wrote, token by token, and what it cost."""

    text: str
    tokens: tuple[Token, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0


class AnswerFile:
    """Stored answers; new ones are appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Answer] = {}
        if path.exists():
            for number, line in enumerate(read_text(path).split("\n"), 1):
                if line.strip():
                    self._known.update([_read(line, f"{path}, line {number}")])

    def __len__(self) -> int:
        return len(self._known)

    @property
    def digest(self) -> str:
        """A short hash of which answers are there."""
        return hashlib.sha256("".join(sorted(self._known)).encode()).hexdigest()[:8]

    def get(self, key: str) -> Answer | None:
        """Return a stored answer."""
        return self._known.get(key)

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer, on disk at once: answers cost money."""
        self._known[key] = answer
        entry = {
            "key": key,
            "text": answer.text,
            "tokens": answer.tokens,
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def ask(endpoint: str, model: str, question: Question, tries: int = TRIES) -> Answer:
    """Ask the service; failures that pass are tried again, a bounded number of times.

    Raises:
        NoAnswer: it did not answer in time, or refused this question.
        UsageError: the address, the key or the model is wrong.
    """
    picture = base64.b64encode(question.picture).decode()
    content = [
        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture}"}},
        {"type": "text", "text": question.text},
    ]
    body = {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": 8,
        "logprobs": True,
        "top_logprobs": 20,
    }
    key = os.environ.get("CAPTIOUS_JUDGE_KEY") or os.environ.get("OPENAI_API_KEY")
    headers = {"Content-Type": "application/json"} | (
        {"Authorization": f"Bearer {key}"} if key else {}
    )
    if not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"judge: the endpoint {endpoint!r} is not an http address")
    address = f"{endpoint.rstrip('/')}/chat/completions"
    problem = ""
    for attempt in range(tries):
        if attempt:
            time.sleep(_PAUSE * 2 ** (attempt - 1))
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
                return parsed(parse_json(reply.read(_LARGEST), endpoint))
        except urllib.error.HTTPError as error:
            said = error.read(500).decode("utf-8", "replace")
            problem = f"{error.code} {error.reason}: {said[:200]}"
            error.close()
            if error.code in (401, 403, 404):
                raise UsageError(f"judge: {endpoint} refused ({problem})") from None
            if error.code in _MISUNDERSTOOD and "logprob" in said and "logprobs" in body:
                del body["logprobs"], body["top_logprobs"]  # it has no probabilities to give
            elif error.code not in _PASSING:
                break
        except (OSError, InputError) as error:
            problem = str(error)
    raise NoAnswer(f"the judge did not answer ({problem[:200]})")


def parsed(reply: Any) -> Answer:
    """Read the reply of a chat completion.

    Raises:
        InputError: it has another form.
    """
    try:
        choice = reply["choices"][0]
        text = str(choice["message"]["content"])
        tokens = []
        for item in (choice.get("logprobs") or {}).get("content") or ():
            options = {str(o["token"]): math.exp(float(o["logprob"])) for o in item["top_logprobs"]}
            options.setdefault(str(item["token"]), math.exp(float(item["logprob"])))
            tokens.append((str(item["token"]), options))
        usage = reply.get("usage") or {}
        counts = (int(usage.get(k) or 0) for k in ("prompt_tokens", "completion_tokens"))
        return Answer(text, tuple(tokens), *counts)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the reply is not a chat completion ({error!r})") from error


def _read(line: str, where: str) -> tuple[str, Answer]:
    entry = parse_json(line, where)
    try:
        tokens = tuple(
            (str(token), {str(k): float(v) for k, v in options.items()})
            for token, options in entry["tokens"]
        )
        counts = int(entry["prompt_tokens"]), int(entry["completion_tokens"])
        return str(entry["key"]), Answer(str(entry["text"]), tokens, *counts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: not a stored answer ({error!r})") from error


# -- from answers to numbers -------------------------------------------------------------------


def smoothed(answer: Answer) -> tuple[float | None, bool]:
    """Return the rating from 0 to 1, and whether digits' probabilities smoothed it (FLEUR).

    Of a rating 0.d the score is the mean of the digits at that place by their probabilities, a
    tenth each; a second decimal adds its own, a hundredth each. Of 1.0 it is p(1) + 0.9 p(0).
    Without probabilities of single digits the rating stands as it is; without a rating there is
    None.

    Example:
        >>> tokens = (("0", {}), (".", {}), ("8", {"8": 0.5, "9": 0.25, "7": 0.25}))
        >>> smoothed(Answer("0.8", tokens))
        (0.8, True)
    """
    written = "".join(token for token, _ in answer.tokens) or answer.text
    match = _RATING.search(written)
    if match is None:
        return None, False
    rating = float(match[0])
    digits = _digits(answer)
    if rating >= 1.0:
        shares = digits.get(match.start())
        return (rating, False) if not shares else (shares.get(1, 0) + 0.9 * shares.get(0, 0), True)
    point = match[0].find(".")
    score = 0.0
    decimals = match[0][point + 1 : point + 3] if point >= 0 else ""
    if len(decimals) == 2 and decimals[1] == "0":  # FLEUR reads 0.50 as the number 0.5
        decimals = decimals[0]
    for number in range(len(decimals)):
        shares = digits.get(match.start() + point + 1 + number)
        if not shares:
            return rating, False
        score += 0.1 ** (number + 1) * sum(digit * share for digit, share in shares.items())
    return (min(score, 1.0), True) if decimals else (rating, False)


def digits_read(answer: Answer) -> list[tuple[str, dict[str, float]]]:
    """Return the places of the rating with the probabilities of the digits there.

    Example:
        >>> tokens = (("0", {}), (".", {}), ("8", {"8": 0.75, "9": 0.25}))
        >>> digits_read(Answer("0.8", tokens))
        [('decimal 1', {'8': 0.75, '9': 0.25})]
    """
    written = "".join(token for token, _ in answer.tokens) or answer.text
    match = _RATING.search(written)
    if match is None:
        return []
    digits = _digits(answer)
    whole = float(match[0]) >= 1.0
    places = {"first digit": 0} if whole else {f"decimal {n}": n + 1 for n in (1, 2)}
    return [
        (name, {str(digit): share for digit, share in digits[match.start() + at].items()})
        for name, at in places.items()
        if at < len(match[0]) and digits.get(match.start() + at)
    ]


def _digits(answer: Answer) -> dict[int, dict[int, float]]:
    """Probabilities of the digits, by the place in the text of tokens that are one digit."""
    out: dict[int, dict[int, float]] = {}
    at = 0
    for token, options in answer.tokens:
        bare = token.strip()
        if len(bare) == 1 and bare in _TEN:
            shares = out.setdefault(at + token.index(bare), {})
            for text, share in options.items():
                if text.strip() in _TEN and text.strip():
                    digit = int(text)
                    shares[digit] = shares.get(digit, 0.0) + share
        at += len(token)
    return out


def preference(answer: Answer) -> float | None:
    """Return the probability that the first caption is preferred, None without a clear answer."""
    for token, options in answer.tokens:
        if token.strip().upper() in ("A", "B"):
            shares = [_share(options, letter) for letter in "AB"]
            return shares[0] / sum(shares)
    letters = [c for c in answer.text.strip().upper()[:1] if c in "AB"]
    return float(letters[0] == "A") if letters else None


def _share(options: dict[str, float], letter: str) -> float:
    named: Iterable[float] = (p for text, p in options.items() if text.strip().upper() == letter)
    return sum(named)
