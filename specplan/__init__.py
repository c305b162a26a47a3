"""The product: the command line, the planner and its predictions. Nothing is imported before it is needed."""

__all__ = ["__version__"]

__version__ = "0.1.0"
