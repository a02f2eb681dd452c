"""One metric per file; ``base`` holds the contract. Names are resolved by ``captious.registry``."""
