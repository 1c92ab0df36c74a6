"""Load tests and benches: the figures of the project, measured."""
