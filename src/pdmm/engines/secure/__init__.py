"""Secure sums: numbers as whole multiples of powers of two, whose sum is read and not its parts."""
