"""Fuzzing: random cases, each made from one number, held against what the library promises.

``python -m tests.fuzz --minutes 10 --seed 1`` from the root of the repository. A fuzzer is a
module with a function ``case(seed)``: it makes its case from the seed alone, and returns a word
for what happened, or raises an AssertionError that says what is wrong.
"""
