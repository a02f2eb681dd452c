"""``from captious.compat.pycocoevalcap.meteor.meteor import Meteor``."""

from captious.compat.pycocoevalcap._scorers import Meteor

__all__ = ["Meteor"]
