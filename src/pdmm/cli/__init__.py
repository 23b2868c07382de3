"""The command ``pdmm``: parse, call the API, show."""
