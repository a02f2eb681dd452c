"""The arithmetic of BERT-TBR on padded batches: cut, combine, remove.

Shapes: B samples, M references each, R reference pieces in all (marks and padding included),
C caption pieces, A bases (combined references) per sample. Nothing here knows of text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_FEW = 16  # references up to which whole batches are combined at once, though its cost is M^4


@dataclass(frozen=True, eq=False)
class References:
    """The pieces of all references of B samples.

    Attributes:
        vectors: (B, R, d), unit length.
        owner: (B, R) number of the reference that a piece belongs to; -1 = padding.
        content: (B, R) whether it is a piece of text, not a mark or padding.
        count: M.
    """

    vectors: torch.Tensor
    owner: torch.Tensor
    content: torch.Tensor
    count: int

    def by_reference(self) -> torch.Tensor:
        """Return (B, M, R): which text pieces each reference has."""
        import torch

        number = torch.arange(self.count, device=self.owner.device)
        return (self.owner[:, None, :] == number[None, :, None]) & self.content[:, None, :]


def combine(refs: References, threshold: float, how: str) -> torch.Tensor:
    """Return (B, A, R): which pieces form each combined reference.

    Args:
        refs: the pieces.
        threshold: two pieces match when their cosine is larger.
        how: ``grow`` takes each reference as base and adds, reference by reference, the pieces
            without a match in what has been collected (the paper). ``marks`` compares with the
            base and with all pieces of earlier references instead (the release). ``cat`` takes
            all pieces of all references. ``none`` keeps every reference for itself.
    """
    import torch

    own = refs.by_reference()
    if how == "none":
        return own
    if how == "cat":
        return refs.content[:, None, :]
    match = torch.bmm(refs.vectors, refs.vectors.mT) > threshold
    match &= refs.content[:, :, None] & refs.content[:, None, :]
    few = refs.count <= _FEW
    if how == "grow" and few:
        linked, taken = match.to(refs.vectors.dtype), own.clone()
        for k in range(refs.count):
            matched = torch.bmm(taken.to(linked.dtype), linked) > 0
            taken |= own[:, k : k + 1] & ~matched
        return taken
    if how == "grow":
        return torch.stack([_grow(o, m) for o, m in zip(own, match, strict=True)])
    if few:
        linked = match.to(refs.vectors.dtype)
        mark = torch.bmm(own.to(linked.dtype), linked) > 0  # (B, M, R): piece matches reference
    else:
        mark = torch.stack([_marks(o, m) for o, m in zip(own, match, strict=True)])
    number = torch.arange(refs.count, device=refs.owner.device)[None, :, None]
    earlier = mark & (number < refs.owner[:, None, :])
    others = earlier.sum(1, keepdim=True) - earlier.to(torch.int64)  # without the base itself
    return own | (refs.content[:, None, :] & ~mark & (others == 0))


def _marks(own: torch.Tensor, match: torch.Tensor) -> torch.Tensor:
    """Return (M, R): which pieces match a reference, for one sample."""
    import torch

    return torch.stack([match[pieces].any(0) for pieces in own])


def _grow(own: torch.Tensor, match: torch.Tensor) -> torch.Tensor:
    """Return (A, R): what ``grow`` takes, for one sample with many references.

    A piece is compared with the base's own pieces (``marks``, once) and with what was added so far.
    What any base adds is little, since each addition covers its like: only those pieces are columns
    of ``added``.
    """
    import torch

    marks, taken = _marks(own, match), own.clone()
    columns = torch.zeros(0, dtype=torch.int64, device=own.device)
    added = torch.zeros(len(own), 0, device=own.device)
    for k in range(len(own)):
        pieces = own[k].nonzero()[:, 0]
        new = ~marks[:, pieces]
        new &= added @ match[columns[:, None], pieces].to(added.dtype) == 0
        new[k] = False  # the base has them already
        taken[:, pieces] |= new
        grows = new.any(0)
        columns = torch.cat([columns, pieces[grows]])
        added = torch.cat([added, new[:, grows].to(added.dtype)], 1)
    return taken


def release_rows(refs: References, taken: torch.Tensor) -> torch.Tensor:
    """Return (B, A, R): which piece's vector the release scores under each piece's name.

    Two index slips: an added piece is stored with the vector of the piece before it, and the
    vectors then move up by one place because the base's last mark stays in the middle.
    """
    import torch

    own = refs.by_reference()
    place = torch.arange(refs.owner.shape[1], device=refs.owner.device)
    added = taken & ~own
    last = torch.where(added, place, -1).cummax(2).values
    before = torch.cat([torch.full_like(last[:, :, :1], -1), last[:, :, :-1]], 2)
    number = torch.arange(refs.count, device=refs.owner.device)[None, :, None]
    end = torch.where(refs.owner[:, None, :] == number, place, -1).amax(2, keepdim=True)
    return torch.where(added, torch.where(before >= 0, before - 1, end), place)


@dataclass(frozen=True, eq=False)
class Factors:
    """The two factors per base, (B, A): matched recall, and recall without stop words."""

    combined: torch.Tensor
    removed: torch.Tensor


def factors(
    cosine: torch.Tensor,
    taken: torch.Tensor,
    rows: torch.Tensor | None,
    weight: torch.Tensor,
    stop: torch.Tensor,
    caption: torch.Tensor,
    caption_stop: torch.Tensor,
    threshold: float | None,
    denominator: str,
) -> Factors:
    """Score captions against their combined references.

    Args:
        cosine: (B, R, C) between reference and caption pieces.
        taken: (B, A, R) from :func:`combine`.
        rows: from :func:`release_rows`, or None for the piece's own vector.
        weight: (B, R) idf.
        stop: (B, R) stop words among the reference pieces.
        caption: (B, C) text pieces of the caption.
        caption_stop: (B, C) stop words among them.
        threshold: the cut; None cuts nothing and counts every piece (recall of BERTScore).
        denominator: of the second factor: ``all`` pieces that are no stop words, or the
            ``matched`` ones only.
    """
    best = _cut(cosine, caption, threshold)
    best_content = _cut(cosine, caption & ~caption_stop, threshold)
    if rows is None:
        value, content_value = best[:, None, :], best_content[:, None, :]
    else:
        shape = rows.shape
        value = best[:, None, :].expand(shape).gather(2, rows)
        content_value = best_content[:, None, :].expand(shape).gather(2, rows)
    share = taken * weight[:, None, :]
    counted_share = share if threshold is None else share * (value > 0)
    content = taken & ~stop[:, None, :]
    counted = content if denominator == "all" else content & (content_value > 0)
    return Factors(
        _ratio((share * value).sum(2), counted_share.sum(2)),
        _ratio((content * content_value).sum(2), counted.sum(2)),
    )


def shares(
    cosine: torch.Tensor,
    taken: torch.Tensor,
    rows: torch.Tensor | None,
    weight: torch.Tensor,
    caption: torch.Tensor,
    threshold: float | None,
) -> torch.Tensor:
    """Return what each reference piece adds to the first factor; see :func:`factors`.

    Returns:
        (B, A, R); summed over the pieces, the first factor of every combined reference.
    """
    best = _cut(cosine, caption, threshold)
    value = best[:, None, :].expand(taken.shape)
    if rows is not None:
        value = value.gather(2, rows)
    share = taken * weight[:, None, :]
    counted = share if threshold is None else share * (value > 0)
    total = counted.sum(2, keepdim=True).double()
    return share * value / total.masked_fill(total == 0, 1.0) * (total > 0)


def _cut(cosine: torch.Tensor, allowed: torch.Tensor, threshold: float | None) -> torch.Tensor:
    """Return each reference piece's best match among allowed caption pieces, 0 if not above.

    Without a threshold the best cosine is kept whatever its sign; with no caption piece it is 0.
    """
    if cosine.shape[2] == 0:
        return cosine.new_zeros(cosine.shape[:2]).double()
    if threshold is None:
        best = cosine.masked_fill(~allowed[:, None, :], -2.0).amax(2).clamp(max=1.0).double()
        return best.masked_fill(~allowed.any(1)[:, None], 0.0)
    best = cosine.masked_fill(~allowed[:, None, :], 0.0).amax(2).clamp(max=1.0).double()
    return best * (best > max(threshold, 0.0))


def _ratio(above: torch.Tensor, below: torch.Tensor) -> torch.Tensor:
    return above.double() / below.double().masked_fill(below == 0, 1.0) * (below > 0)
