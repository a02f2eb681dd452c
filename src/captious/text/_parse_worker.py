"""Helper process of ``scene_parser``: sentences on stdin, an encoded parse per line on stdout."""

from __future__ import annotations

import sys
from pathlib import Path

from captious.text.scene_parser import encode_all


def main() -> None:
    """Parse everything that comes in, then write everything."""
    texts = sys.stdin.buffer.read().decode("utf-8", "surrogatepass").split("\n")
    sys.stdout.write("\n".join(encode_all(Path(sys.argv[1]), texts)))


if __name__ == "__main__":
    main()
