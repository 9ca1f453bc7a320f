"""Seeing what a node does: metrics, health and status over HTTP, structured logs."""
