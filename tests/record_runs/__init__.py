"""Exact results of many small runs, to hold a change of the library against, bit for bit.

From the folder that this one is in, with the code as it is before a change::

    python -m record_runs record before.pkl

and with the changed code, on the same machine with the same NumPy and SciPy::

    python -m record_runs compare before.pkl

``--only SUBSTRING`` takes the runs whose names contain it, ``list`` prints the names.
"""
