"""Naive twins: each method written once more, as its paper writes it, slow and plain."""
