"""Bootstrap, permutation tests, corrections: used by the engine and by meta alike."""
