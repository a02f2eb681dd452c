"""Named outside resources: where they may come from, checked, never fetched unasked.

An asset is looked for in this order: a path that the user gave, the cache, an installed Python
package that carries it, and, only when ``settings.download`` is on, its home.
"""

from captious.assets.resolve import Asset, available, digest, known, remembered_digest, resolve

__all__ = ["Asset", "available", "digest", "known", "remembered_digest", "resolve"]
