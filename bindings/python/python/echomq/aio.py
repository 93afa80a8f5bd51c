"""The client for asyncio: the calls of ``echomq``, each answering a future.

It also runs on other loops with asyncio's interface, such as uvloop.
"""

from ._echomq import AioClient as Client
from ._echomq import AioConsumer as Consumer
from ._echomq import AioEvents as Events
from ._echomq import AioListener as Listener
from ._echomq import AioNotices as Notices
from ._echomq import AioReader as Reader
from ._echomq import AioStream as Stream
from ._echomq import AioSubscriber as Subscriber
from ._echomq import AioTail as Tail
from ._events import AioReduction as Reduction

__all__ = [
    "Client",
    "Consumer",
    "Events",
    "Listener",
    "Notices",
    "Reader",
    "Reduction",
    "Stream",
    "Subscriber",
    "Tail",
]
