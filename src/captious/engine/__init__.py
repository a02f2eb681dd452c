"""From samples and metrics to a score table: plan, run, intervals, paired tests."""
