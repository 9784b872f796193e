"""How a command ends when it does not end well."""

from __future__ import annotations

BAD_INPUT, FAILED, STOPPED, INTERRUPTED = 2, 3, 4, 130


class CommandError(Exception):
    """Ends a command with one message and an exit code: bad input, failed, stopped (can go on) or interrupted."""

    def __init__(self, message: object, code: int = BAD_INPUT) -> None:
        super().__init__(str(message))
        self.code = code
