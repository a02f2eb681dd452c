"""Ask a service what a prepared scorer would be asked: ``captious.Client(url)(captions, ...)``.

Only the standard library is needed here, so a training job can score on another machine without
installing any metric.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from captious.calling import (
    Answer,
    Columns,
    Unscored,
    captions_of,
    per_caption,
    references_of,
)
from captious.errors import CaptiousError, InputError, UsageError
from captious.reading import read_bytes

PART = 10_000
"""Captions of one request; more are sent in several."""
_BYTES = 24_000_000


@dataclass(frozen=True, repr=False)
class RemoteScores(Answer):
    """What a call returns, as that of :func:`captious.scorer` does.

    Attributes:
        ids: of every caption: those that were given, else its position.
        per_caption: column -> one number per caption (NaN: see ``unscored``).
        unscored: which caption a column has no value for, and why.
        corpus: column -> value over the captions of this call.
        signatures: column -> what has to stand beside its numbers.
    """

    corpus: dict[str, float]
    signatures: dict[str, str]


class Client:
    """A scorer whose work is done by a service.

    Args:
        url: of the service, ``http://127.0.0.1:8765``.
        metrics: names or specs; BLEU, ROUGE-L and CIDEr-D if None.
        references: those that are known beforehand: ``{id: texts}``, or one list per caption.
        df: ``coco-val``, or ``corpus`` (counted on the references of each call).
        token: what the service asks for; the environment variable ``CAPTIOUS_TOKEN`` if None.
        seconds: bound on the time of a request.
        patience: how long a busy service (429) is asked again, in seconds.
    """

    def __init__(
        self,
        url: str,
        metrics: str | Iterable[str] | None = None,
        references: Any = None,
        df: str = "coco-val",
        *,
        token: str | None = None,
        seconds: float = 300.0,
        patience: float = 30.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r} is not the address of a service; write http://HOST:PORT")
        self._given = (url, metrics, references, df, token, seconds, patience)
        self._parts, self._df = parts, df
        self._metrics = [metrics] if isinstance(metrics, str) else _list(metrics)
        self._references = references
        self._token = os.environ.get("CAPTIOUS_TOKEN", "") if token is None else token
        self._seconds, self._patience = seconds, patience
        self._local = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        url, metrics, references, df, token, seconds, patience = self._given
        made = {"token": token, "seconds": seconds, "patience": patience}
        return _again, (url, metrics, references, df, made)

    def __repr__(self) -> str:
        return f"captious.Client({self._given[0]!r}, {self._metrics})"

    def __call__(
        self,
        captions: Any,
        references: Any = None,
        *,
        images: Any = None,
        objects: Any = None,
        ids: Sequence[Any] | None = None,
    ) -> RemoteScores:
        """Score captions; the arguments are those of a scorer.

        Args:
            captions: texts, ``{id: caption}``, one text, or rows (a frame, a table, records).
            references: one list of texts (or one text) per caption, or ``{id: texts}``.
            images: one per caption, or ``{id: image}``: paths, encoded bytes, PIL images, arrays.
            objects: one list of labels per caption, or ``{id: labels}``.
            ids: of the captions, by which references are looked up.

        Raises:
            InputError: the service names what is wrong with the captions.
            CaptiousError: the service does not answer.
        """
        columns = None if isinstance(captions, str | dict) else _columns_of(captions)
        call = Columns(captions, references, images, objects, ids)
        captions, references, images, objects, ids = call.filled(columns)
        texts, names = captions_of(captions, ids)
        given = self._references if references is None else references
        listed = None
        if given is not None:
            listed = references_of(given, names, isinstance(captions, str))
        labels = per_caption(objects, names, "objects")
        rows: dict[str, list[Any] | None] = {
            "captions": texts,
            "references": None if listed is None else [list(r) for r in listed],
            "images": _pictures(per_caption(images, names, "images")),
            "objects": labels if any(o is not None for o in labels) else None,
            "ids": names,
        }
        parts = list(_parts(rows))
        if len(parts) > 1 and self._df == "corpus":
            raise UsageError(
                f"{len(texts):,} captions are sent in {len(parts)} requests, and df='corpus' would "
                "count each request's references for itself; use df='coco-val' or send fewer"
            )
        asked = self._asked() | ({"sums": True} if len(parts) > 1 else {})
        answers = [self._post("/score", part | asked) for part in parts]
        corpus = answers[0]["corpus"]
        if len(answers) > 1:
            sums = [_added(same) for same in zip(*(a["sums"] for a in answers), strict=True)]
            corpus = self._post("/corpus", self._asked() | {"sums": sums})["corpus"]
        return _joined(answers, corpus)

    def explain(self, caption: str, references: Sequence[str] = (), **given: Any) -> dict[str, Any]:
        """Return why a caption gets its score: texts and typed parts, metric by metric.

        Args:
            caption: the caption.
            references: its references.
            **given: ``image`` and ``objects``, as in a call.
        """
        image = (_pictures([given.get("image")]) or [None])[0]
        request = {
            "caption": caption,
            "references": list(references),
            "image": image,
            "objects": given.get("objects"),
        }
        if self._metrics is not None:
            request["metrics"] = self._metrics
        return self._post("/explain", request)

    def health(self) -> dict[str, Any]:
        """Return whether the service takes requests."""
        return self._ask("GET", "/health", None)

    # -- how ---------------------------------------------------------------------------------

    def _asked(self) -> dict[str, Any]:
        made: dict[str, Any] = {"df": self._df}
        return made if self._metrics is None else made | {"metrics": self._metrics}

    def _post(self, path: str, request: Mapping[str, Any]) -> dict[str, Any]:
        body = json.dumps({k: v for k, v in request.items() if v is not None}).encode()
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        end = time.monotonic() + self._patience
        wait = 0.05
        while True:
            status, answer = self._once(method, path, body)
            if status != 429 or time.monotonic() + wait > end:
                break
            time.sleep(wait)
            wait = min(2 * wait, 2.0)
        try:
            data = json.loads(answer)
        except ValueError:
            data = None
        if status == 200 and isinstance(data, dict):
            return data
        told = data if isinstance(data, dict) else {}
        text = str(told.get("error") or f"the service answered {status}")
        if status == 422:
            raise InputError(list(told.get("problems") or [text]))
        if status == 400:
            raise UsageError(text)
        raise CaptiousError(f"{self._given[0]}: {text} ({status})")

    def _once(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        headers = {"content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        for attempt in (1, 2):
            kept = getattr(self._local, "connection", None)
            connection = self._connect() if kept is None else kept.connection
            try:
                connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                if answer.will_close:
                    self._local.connection = None
                elif kept is None:
                    self._local.connection = _Kept(connection)
                return answer.status, content
            except (http.client.HTTPException, OSError) as err:
                connection.close()
                self._local.connection = None
                # A connection that was kept may have been closed meanwhile; a new one tells.
                if kept is None or attempt == 2:
                    raise CaptiousError(
                        f"{self._given[0]}: the service does not answer ({err}); is "
                        "`captious serve` running there?"
                    ) from err
        raise CaptiousError(f"{self._given[0]}: the service does not answer")

    def _connect(self) -> http.client.HTTPConnection:
        kind = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        return kind[self._parts.scheme](
            str(self._parts.hostname), self._parts.port, timeout=self._seconds
        )


class _Kept:
    """A connection that is kept for the next call, and closed when its thread or client goes."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


def _again(url: str, metrics: Any, references: Any, df: str, options: dict[str, Any]) -> Client:
    return Client(url, metrics, references, df, **options)


def _list(values: Iterable[str] | None) -> list[str] | None:
    return None if values is None else list(values)


def _columns_of(rows: Any) -> Any:
    """Return the columns of rows; None of texts, for which nothing has to be installed."""
    if isinstance(rows, Sequence) and not any(isinstance(row, Mapping) for row in rows[:1]):
        return None
    from captious.io.references import columns_of

    return columns_of(rows)


def _pictures(given: list[Any]) -> list[str | None] | None:
    """Return photographs as base64."""
    if all(picture is None for picture in given):
        return None
    from captious.evidence.images import handed_over

    out: list[str | None] = []
    for i, picture in enumerate(given):
        if picture is None:
            out.append(None)
            continue
        name, content = handed_over(picture, f"images[{i}]")
        out.append(base64.b64encode(read_bytes(name) if content is None else content).decode())
    return out


def _parts(rows: Mapping[str, list[Any] | None]) -> Iterable[dict[str, Any]]:
    """Cut a call into requests that a service takes."""
    captions = rows["captions"] or []
    images = rows["images"]
    start = 0
    while start < len(captions):
        stop, size = start, 0
        while stop < len(captions) and stop - start < PART:
            size += len(images[stop] or "") if images else 0
            if size > _BYTES and stop > start:
                break
            stop += 1
        yield {k: v if v is None else v[start:stop] for k, v in rows.items()}
        start = stop


def _added(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Add the sums of one metric over several requests."""
    listed = [part for part in parts if part["count"]] or [{"totals": [], "count": 0}]
    totals = [math.fsum(numbers) for numbers in zip(*(p["totals"] for p in listed), strict=True)]
    return {"totals": totals, "count": sum(part["count"] for part in listed)}


def _joined(answers: list[dict[str, Any]], corpus: Mapping[str, float | None]) -> RemoteScores:
    import numpy as np

    values = {
        column: np.array([v for a in answers for v in a["per_caption"][column]], np.float64)
        for column in answers[0]["per_caption"]
    }
    return RemoteScores(
        [name for a in answers for name in a["ids"]],
        values,
        [Unscored(u["id"], "", u["column"], u["reason"]) for a in answers for u in a["unscored"]],
        {k: float("nan") if v is None else v for k, v in corpus.items()},
        answers[0]["signatures"],
    )
