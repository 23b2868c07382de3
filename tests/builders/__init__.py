"""Problems and runs that several tests build."""
