"""The client for asyncio: the calls of ``echomq``, each answering a future.

It also runs on other loops with asyncio's interface, such as uvloop.
"""

from ._echomq import AioClient as Client
from ._echomq import AioReader as Reader
from ._echomq import AioStream as Stream

__all__ = ["Client", "Reader", "Stream"]
