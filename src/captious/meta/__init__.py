"""How well does each metric agree with people? Judgement sets, protocols, statistics, tables."""
