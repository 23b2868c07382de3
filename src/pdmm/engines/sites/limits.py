"""How large what a site tells may be: generous for every honest site, and too small for a trick.

A site is another organisation. What it says decides how much memory the server takes and what
the server computes with, so that each size has a limit, which errors state.
"""

MOST_CLIENTS = 100_000
"""Clients of one site. Most sites have one: it is a site's own choice to have more."""

MOST_ENTRIES = 10**9
"""Entries of x: 8 GB in float64 for each vector of a client."""

MOST_NUMBERS = 3 * 10**7
"""Clients times entries of x, at a site of several clients: the server keeps from one to a dozen
arrays of so many numbers, before the site has sent any of them."""

MOST_CALLS = 10**15
"""Gradients or values that a site has counted: a million in each second, for thirty years."""

LARGEST = 1e150
"""Entries of uploads and gradients: a run squares them, and float64 ends at 1.8e308."""

LARGEST_CONSTANT = 1e120
"""L and mu. Entries of data are at most 1e50, and L has their squares, added up over the rows."""

LONGEST_NAME = 100
"""Characters of a name, a digest or the like."""

MOST_DIGESTS = 100
"""Things of which a site tells a digest, such as its columns."""

MOST_PARAMETERS = 10_000
"""Parameters of a model, of which a site tells names and shapes."""

LONGEST_PARAMETER = 300
"""Characters of a parameter's name, in which the names of all modules around it stand."""

MOST_AXES = 8
"""Of a parameter."""

STRAYS = 3
"""Answers in a row that belong to another question, before a site counts as broken."""
