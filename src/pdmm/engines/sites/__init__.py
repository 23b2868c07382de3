"""Clients at the sites of a federation, whatever carries the messages."""
