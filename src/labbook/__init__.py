"""Shared code of *Frontier Methods You Can Run*: nineteen methods, one notebook each.

``from labbook import chapter`` loads the method of a chapter from its notebook;
everything else is scenery: see the modules.
"""

from labbook.chapters import chapter
from labbook.errors import BookError
from labbook.ledger import Ledger
from labbook.runtime import start

__all__ = ["BookError", "Ledger", "chapter", "start"]
__version__ = "0.1.0"
