"""How well does each metric agree with people? Agreement, evaluation, robustness."""
