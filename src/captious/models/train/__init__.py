"""Trainers of the models that captious ships or lets its users train."""
