"""A module of Hugging Face's ``evaluate``: ``evaluate.load(".../evaluate_module.py", "cider_d")``.

The config's name is a metric of captious, or its spec. This file stands alone: ``evaluate`` copies
it and imports the copy.
"""

from typing import Any

import datasets
import evaluate


class Captious(evaluate.Metric):  # type: ignore[misc, unused-ignore]
    """A metric of captious, computed over the whole of what was added."""

    def _info(self) -> Any:
        text = datasets.Value("string")
        several = datasets.Sequence(text)
        return evaluate.MetricInfo(
            description="Metrics of image captions, from captious.",
            citation="",
            inputs_description="predictions: captions; references: texts, or lists of texts.",
            features=[
                datasets.Features({"predictions": text, "references": several}),
                datasets.Features({"predictions": text, "references": text}),
            ],
        )

    def _compute(self, predictions: Any = None, references: Any = None, **others: Any) -> Any:
        import captious.compat.evaluate

        metrics = None if self.config_name in (None, "default") else self.config_name
        return captious.compat.evaluate.compute(
            predictions=predictions, references=references, metrics=metrics, **others
        )
