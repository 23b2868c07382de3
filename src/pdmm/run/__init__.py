"""A run: its settings, its state, its loop, its history, and what is kept of it on disk."""
