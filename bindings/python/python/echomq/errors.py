"""What can go wrong: one class of exception for each code, made from the list that the core exports.

The name of a class is its code in capitalised words and ``Error``: ``unknown_outcome`` is ``UnknownOutcomeError``.
"""

from ._echomq import CODES, RETRYABLE_CODES, made_once


class EchoMQError(Exception):
    """The base of all errors of the bus; each raised is of the class of its code.

    Where another error led to it, why there was no connection for example, that one is its ``__cause__``.

    >>> try:
    ...     echomq.Keyspace("no spaces")
    ... except echomq.EchoMQError as error:
    ...     print(type(error).__name__, error.code, error.subject)
    InvalidNameError invalid_name no spaces
    """

    code = ""
    """The cause, the same word in every language."""

    retryable = False
    """Whether the same call may succeed later without any change by the caller.

    ``UnknownOutcomeError`` is not: calling again could write a second record.
    """

    def __init__(self, message, subject=None, id=None, top=None):
        super().__init__(message, *_without_trailing_none(subject, id, top))
        self.message = message
        self.subject = subject
        self.id = id
        self.top = top

    def __str__(self):
        return self.message if self.subject is None else f"{self.message} ({self.subject})"


class Cancelled(Exception):
    """Raised by ``CancelToken.raise_if_cancelled``; it is no error of the bus."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason

    def __str__(self):
        return f"cancelled: {self.reason}"


def _without_trailing_none(*values):
    while values and values[-1] is None:
        values = values[:-1]
    return values


def _class(code):
    name = "".join(word.capitalize() for word in code.split("_")) + "Error"
    members = {"__module__": "echomq", "__doc__": f"An error of the code ``{code}``.", "code": code}
    members["retryable"] = code in RETRYABLE_CODES
    return type(name, (EchoMQError,), members)


EchoMQError.__module__ = Cancelled.__module__ = "echomq"

BY_CODE = {code: _class(code) for code in CODES}
"""The class of each code."""

# Where this module is loaded again, its classes are those of the first time.
EchoMQError, Cancelled, BY_CODE = made_once("errors", lambda: (EchoMQError, Cancelled, BY_CODE))

globals().update({made.__name__: made for made in BY_CODE.values()})

__all__ = ["BY_CODE", "Cancelled", "EchoMQError", *(made.__name__ for made in BY_CODE.values())]
