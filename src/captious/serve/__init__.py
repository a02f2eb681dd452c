"""Captions judged over HTTP: a service for programs, an explorer for people."""
