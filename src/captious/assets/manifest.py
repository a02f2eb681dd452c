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
    Asset(
        name="meteor-tables",
        purpose="METEOR 1.5 word tables: function words, WordNet 3.0 synsets, irregular forms",
        licence="METEOR LGPL-2.1; WordNet licence for the synsets",
        remedy="pip install 'captious[meteor]' (package pycocoevalcap), or tables=PATH with the "
        "METEOR 1.5 jar or its folder",
        package="pycocoevalcap/meteor/meteor-1.5.jar",
        sha256="1e57b4c72c0830ebe68558f1c799a624e96cbc1b6045c9f6330e26dcff6eafc2",
        source="https://www.cs.cmu.edu/~alavie/METEOR/",
    ),
    Asset(
        name="meteor-paraphrases",
        purpose="METEOR 1.5 English paraphrase table (5,274,084 entries)",
        licence="METEOR LGPL-2.1",
        remedy="pip install 'captious[meteor]' (package pycocoevalcap), or tables=PATH with the "
        "METEOR 1.5 folder",
        package="pycocoevalcap/meteor/data/paraphrase-en.gz",
        sha256="c147ac7d2c91f2fbb3ad31e4b352235061eb83145e0434daf217ee9ca5975f48",
        source="https://www.cs.cmu.edu/~alavie/METEOR/",
    ),
)
