"""How every shipped weight is made: SCAN, ViLBERT, language model, composites, caption parser."""
