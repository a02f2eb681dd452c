"""Words against words: transport plans, importance, scene graphs told."""
