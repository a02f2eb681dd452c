"""Metrics learned from the scores of other metrics: training, model files, probes."""
