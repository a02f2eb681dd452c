"""What goes in and out over HTTP; the OpenAPI page is made of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from captious.serve.limits import Limits

_L = Limits()
Text = Annotated[str, Field(max_length=_L.letters)]
Name = Annotated[str, Field(max_length=500)]
Metrics = Annotated[list[Name], Field(min_length=1, max_length=_L.metrics)]
Picture = Annotated[str, Field(max_length=_L.body, json_schema_extra={"format": "byte"})]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Labels = Annotated[list[Name], Field(max_length=1000)]
Listed = Annotated[list[Text], Field(max_length=_L.references)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ScoreRequest(_Strict):
    """Captions to be scored, with what the metrics need."""

    captions: Annotated[list[Text], Field(min_length=1, max_length=_L.captions)] = Field(
        description="the captions", examples=[["a dog runs on the beach"]]
    )
    references: list[Listed] | None = Field(
        None,
        description="one list of texts per caption",
        examples=[[["a dog is running on a beach", "the dog runs by the sea"]]],
    )
    images: list[Picture | None] | None = Field(
        None, description="one photograph per caption, base64 of the file's bytes"
    )
    objects: list[Labels | None] | None = Field(
        None, description="one list of labels per caption: what is in its image"
    )
    ids: list[Name] | None = Field(None, description="names of the captions, for the answer")
    metrics: Metrics | None = Field(
        None,
        description="names or specs as in `captious score --metrics`; BLEU, ROUGE-L and CIDEr-D "
        "if none is named",
        examples=[["bleu", "cider_d"]],
    )
    df: Literal["coco-val", "corpus"] = Field(
        "coco-val", description="document frequencies of CIDEr; `corpus` counts each request's own"
    )
    signatures: bool = Field(True, description="whether the answer names the signatures")
    sums: bool = Field(False, description="whether the answer holds the sums that `/corpus` takes")


class Sums(_Strict):
    """Statistics of a metric, added over captions; those of several requests can be added."""

    totals: Annotated[list[Finite], Field(max_length=1000)]
    count: Annotated[int, Field(ge=0, le=10**12)] = Field(description="over how many captions")


class CorpusRequest(_Strict):
    """Sums of several requests of `/score`, added up, one per metric in their order."""

    sums: Annotated[list[Sums], Field(min_length=1, max_length=_L.metrics)]
    metrics: Metrics | None = Field(None, examples=[["bleu"]])
    df: Literal["coco-val", "corpus"] = "coco-val"


class CorpusAnswer(BaseModel):
    """Corpus values over all the captions that were summed."""

    corpus: dict[str, float | None]


class NotScored(BaseModel):
    """A caption that a column has no value for."""

    id: str
    column: str
    reason: str


class ScoreAnswer(BaseModel):
    """Scores, in the order of the captions."""

    ids: list[str]
    per_caption: dict[str, list[float | None]] = Field(description="null: see `unscored`")
    corpus: dict[str, float | None]
    unscored: list[NotScored]
    signatures: dict[str, str]
    sums: list[Sums] | None = Field(None, description="if they were asked for")


class ExplainRequest(_Strict):
    """One caption to be explained."""

    caption: Text = Field(examples=["a dog runs on the beach"])
    references: Listed = Field(default=[], examples=[["a dog is running on a beach"]])
    image: Picture | None = Field(None, description="base64 of the photograph's bytes")
    objects: Labels | None = Field(None, description="labels of what is in the image")
    metrics: Metrics | None = Field(None, examples=[["meteor"]])


class Told(BaseModel):
    """Why a caption gets its score from one metric."""

    metric: str
    text: str
    parts: list[dict[str, Any]] = Field(description="typed parts, as the report draws them")


class ExplainAnswer(BaseModel):
    """Explanations, metric by metric, and the scores."""

    explanations: list[Told]
    scores: dict[str, float | None]
    unscored: list[NotScored]


class MetricColumn(BaseModel):
    """One value that a metric gives."""

    name: str
    label: str = Field(description="the name as papers print it")
    main: bool = Field(description="whether it stands for the metric where one value is shown")
    times: int = Field(description="by what it is multiplied when it is shown: 100 or 1")
    meaning: str
    low: float | None
    high: float | None
    higher_is_better: bool


class MetricFacts(BaseModel):
    """What a metric needs and gives."""

    name: str
    summary: str
    needs: list[str]
    columns: list[MetricColumn]
    parameters: dict[str, Any]
    missing: list[str] = Field(description="what is missing on this machine; empty if ready")


class Health(BaseModel):
    """Whether the service takes requests."""

    status: Literal["ok", "stopping"]
    version: str
    waiting: int = Field(description="captions waiting to be scored")
    seconds: float = Field(description="since the start")


class Problem(BaseModel):
    """Why a request was refused."""

    error: str
    problems: list[str] = Field(default=[], description="each of them, where there are several")
