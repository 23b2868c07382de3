"""Rounds on real tables, columns as they come, and on the problems of :mod:`benchmarks.auto`.

``python -m benchmarks.rounds`` prints tables; with ``--docs``, they go into
docs/tables_results.md too. ``--quick`` takes a few tables and sweeps nothing, ``--no-sweeps``
takes all of them, and ``--only NAME`` those whose name begins so.
"""
