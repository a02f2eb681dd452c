"""From a job to a score table: plan, evidence, chunks, cache, executors, paired tests."""

import logging

# A library is silent unless asked: the command line adds a handler of its own.
logging.getLogger("captious").addHandler(logging.NullHandler())
