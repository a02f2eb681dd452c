"""Region features of a CLIP-type model: its image vector of every grid box, cut out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.evidence.extract import grid_boxes
from captious.evidence.regions import RegionSet

if TYPE_CHECKING:
    from PIL import Image


class ClipCrops:
    """Photograph -> one vector per crop; the first crop is the whole photograph."""

    def __init__(self, path: Path, count: int = 36) -> None:
        from transformers import AutoImageProcessor, AutoModel

        self.processor: Any = AutoImageProcessor.from_pretrained(path, local_files_only=True)
        self.model: Any = AutoModel.from_pretrained(path, local_files_only=True).eval()
        self.count = count
        self.dim = int(self.model.config.projection_dim)
        self.source = f"clip:{path.name}"

    def __call__(self, image: Image.Image) -> RegionSet:
        """Vectors of all crops of one photograph."""
        import torch

        width, height = image.size
        boxes = grid_boxes(self.count) * np.array([width, height] * 2, np.float32)
        corners = [tuple(round(float(v)) for v in box) for box in boxes]
        crops = [image.crop((left, top, right, low)) for left, top, right, low in corners]
        batch = self.processor(images=crops, return_tensors="pt")
        with torch.inference_mode():
            states = self.model.vision_model(pixel_values=batch["pixel_values"])
            vectors = self.model.visual_projection(states.pooler_output)
        return RegionSet(vectors.numpy(), boxes.astype(np.float32), width, height)
