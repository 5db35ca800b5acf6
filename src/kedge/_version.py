"""The version, in one place: the package, its builds and every run's first event say the same.

A literal in a file of its own: the build backend reads it without importing anything, so kedge can be
installed where none of it can be imported yet.
"""

__version__ = "0.1.0"
