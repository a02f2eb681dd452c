"""What people said of captions: judgement sets, their cards, named protocols."""
