"""What the runs show, beside what the paper says: one module for each experiment.

Each has a function ``section(runs, out, quick)``, which draws the figures and returns the
section of the report.
"""
