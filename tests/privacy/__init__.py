"""A hostile server, what it tries, and the tables that it tries it on."""
