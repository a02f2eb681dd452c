"""Every outside resource that captious can use, one entry each (see ``resolve.Asset``)."""

from __future__ import annotations

from captious.assets.resolve import Asset

ASSETS: tuple[Asset, ...] = (
    Asset(
        name="df-coco-val",
        purpose="CIDEr document frequencies of the 40,504 COCO val2014 images",
        licence="derived counts; COCO captions are CC-BY 4.0",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/df-coco-val.npz",
    ),
)
