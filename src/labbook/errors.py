"""The one exception of the book: a problem that the reader can fix, told in one line.

Belongs here: nothing but the exception. Methods reject bad arguments with ``ValueError``.
"""


class BookError(RuntimeError):
    """A problem with a run (parameter, asset, device, chapter), with what to do about it."""

    def _render_traceback_(self) -> list[str]:
        # IPython calls this hook: the notebook then shows one line, not a stack of frames.
        return [f"{type(self).__name__}: {self}"]
