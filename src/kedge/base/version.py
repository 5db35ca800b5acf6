"""The version, in one place: the package, its builds and every run's first event say the same."""

VERSION = "0.1.0"
