"""Damage to files: of bytes, of JSON values, inside archives, and of the kind of file itself."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import zipfile
from pathlib import Path
from typing import Any

# Values and pieces of text that readers have stumbled over.
_VALUES: list[Any] = [
    None, True, 0, -1, 5, 2**31, 2**63, 2**64, -(2**63), 10**400, 1e308, float("nan"), float("inf"),
    "", " ", "\x00", "\ud800", "../../x", "/dev/zero", "a\tb\nc", "1" * 5000, "💥" * 50, "[" * 3000,
    [], [[]], [None], [[["a"]]], {}, {"a": None}, {"": {}}, ["a"] * 300, [1, "a", None, {}],
]  # fmt: skip
_PIECES = [
    b"\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x80", b"\xff" * 8, b"\n",
    b"\t", b"\r", b'"', b"[" * 3000, b"{", b"}", b"]", b",", b"\\", b"\\ud800",
    b"\xed\xa0\x80", b"\xff\xfe", b"\xef\xbb\xbf", b"NaN", b"Infinity", b"-1", b"1e999",
    b"9" * 5000, b"null", b"<!DOCTYPE a>",
    b"<!ENTITY b 'c'>", b"&b;", b"%s%n", b"\x1f\x8b\x08", b"PK\x03\x04", b"\x93NUMPY", b"PAR1",
    b"__import__('os')", b"(('a'", b"cos\nsystem\n", b"\x80\x04", b".", b"R", b"b", b"0" * 200,
]  # fmt: skip


def damage(content: bytes, kind: str, draw: random.Random, other: bytes) -> bytes:
    """Return a damaged copy: ``kind`` (json, jsonl, zip, gzip, text, bytes) says what it is."""
    if kind == "json" and draw.random() < 0.7:
        return _json(content, draw)
    if kind == "jsonl" and draw.random() < 0.6:
        lines = content.split(b"\n")
        at = draw.randrange(max(1, len(lines) - 1))
        lines[at] = _json(lines[at] or b"{}", draw)
        return b"\n".join(lines)
    if kind == "zip" and draw.random() < 0.6:
        return _zip(content, draw, other)
    if kind == "gzip" and draw.random() < 0.6:
        return gzip.compress(_bytes(gzip.decompress(content), draw, other), 1)
    return _bytes(content, draw, other)


def _bytes(content: bytes, draw: random.Random, other: bytes) -> bytes:
    out = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 4, 16])):
        size = len(out)
        at = draw.randrange(size + 1)
        span = draw.choice([1, 2, 4, 8, 64, 1024])
        how = draw.randrange(9)
        if how == 0 and size:
            out[min(at, size - 1)] ^= 1 << draw.randrange(8)
        elif how == 1 and size:
            out[min(at, size - 1)] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
        elif how == 2:
            del out[at:]
        elif how == 3:
            del out[at : at + span]
        elif how == 4:
            out[at:at] = out[at : at + span] * draw.choice([1, 2, 50])
        elif how == 5:
            out[at:at] = draw.choice(_PIECES)
        elif how == 6:
            piece = draw.choice(_PIECES)
            out[at : at + len(piece)] = piece
        elif how == 7 and other:
            start = draw.randrange(len(other))
            out[at : at + span] = other[start : start + span]
        else:
            end = draw.randrange(size + 1)
            out[min(at, end) : max(at, end)] = draw.randbytes(min(span, abs(end - at)))
    return bytes(out)


def _json(content: bytes, draw: random.Random) -> bytes:
    """Replace, drop or double values inside a JSON text, which stays JSON."""
    root = [json.loads(content)]
    for _ in range(draw.choice([1, 1, 2, 3])):
        places: list[tuple[Any, Any]] = []
        ahead: list[Any] = [root]
        while ahead and len(places) < 5000:
            box = ahead.pop()
            for key in range(len(box)) if isinstance(box, list) else list(box):
                places.append((box, key))
                if isinstance(box[key], list | dict):
                    ahead.append(box[key])
        box, key = draw.choice(places)
        how = draw.randrange(5)
        if how == 0 and box is not root:
            del box[key]
        elif how == 1 and isinstance(box, dict):
            box[str(draw.choice(_VALUES))[:50]] = box.pop(key)
        elif how == 2 and isinstance(box, list) and box is not root:
            box.insert(key, box[key])
        else:
            box[key] = json.loads(json.dumps(draw.choice(_VALUES), default=str))
    return json.dumps(root[0]).encode("utf-8", "surrogatepass")


def _zip(content: bytes, draw: random.Random, other: bytes) -> bytes:
    """Damage one member and pack again, so that the archive itself is sound."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(m.filename, archive.read(m)) for m in archive.infolist()]
    at = draw.randrange(len(members))
    name, body = members[at]
    if draw.random() < 0.15:
        members[at] = (draw.choice(["../../x.npy", "x.npy", "", "a" * 300]), body)
    else:
        members[at] = (name, _bytes(body, draw, other))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as new:
        for name, body in members:
            if name not in new.namelist():
                new.writestr(name or "x", body)
    return out.getvalue()


def odd_file(path: Path, draw: random.Random) -> str:
    """Put something at ``path`` that is not a file as expected; return what it is."""
    content = path.read_bytes() if path.is_file() else b"x"
    path.unlink(missing_ok=True)
    what = draw.choice(
        ["empty", "absent", "folder", "fifo", "device", "dangling", "loop", "utf16", "gzip", "nuls",
         "spaces", "bomb"]
    )  # fmt: skip
    if what == "empty":
        path.write_bytes(b"")
    elif what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "dangling":
        path.symlink_to(path.parent / "nowhere")
    elif what == "loop":
        path.symlink_to(path)
    elif what == "utf16":
        path.write_bytes(content.decode("latin1").encode("utf-16"))
    elif what == "gzip":
        path.write_bytes(gzip.compress(content, 1))
    elif what == "nuls":
        path.write_bytes(b"\x00" * 4096)
    elif what == "spaces":
        path.write_bytes(b" \n" * 512)
    elif what == "bomb":
        path.write_bytes(BOMB)
    return what


def _bomb() -> bytes:
    """More zeros than are allowed, in a small file."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6, mtime=0) as file:
        for _ in range(280):
            file.write(bytes(1 << 20))
    return out.getvalue()


BOMB = b""


def make_bomb(path: Path) -> None:
    """Pack the bomb once and keep it at ``path``: packing takes seconds."""
    global BOMB
    if not path.exists():
        path.write_bytes(_bomb())
    BOMB = path.read_bytes()
