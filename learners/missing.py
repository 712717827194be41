"""The error for a library that an adapter needs and that is not installed."""

from __future__ import annotations


def not_installed(library: str, extra: str) -> ModuleNotFoundError:
    """The error that names the extra with which the library is installed."""
    return ModuleNotFoundError(
        f"{library} is not installed, which this adapter needs. Install the extra {extra}: pip install "
        f"'livegym[{extra}]' (in a checkout: pip install -e '.[{extra}]')"
    )
