"""Events as a plain client hears them, and one way to call the events of both clients."""

import echomq

JOB = "JOB000xY9Wvvcd"


class Ear:
    """A subscription of a plain client to one channel."""

    def __init__(self, plain, channel):
        self._channel, self._subscription = channel, plain.pubsub(ignore_subscribe_messages=True)

    def __enter__(self):
        self._subscription.subscribe(self._channel)
        assert self._subscription.get_message(timeout=60) is None
        return self

    def __exit__(self, *_):
        self._subscription.close()

    def heard(self, count):
        """The next payloads, so many."""
        messages = (self._subscription.get_message(timeout=60) for _ in range(count))
        return [message["data"] for message in messages]


class Waiting:
    """Calls events of the client that waits."""

    def __init__(self, events):
        self.events = events

    def __call__(self, method, *arguments, **options):
        return getattr(self.events, method)(*arguments, **options)


class InLoop:
    """Calls events of the asynchronous client, in a loop of its own."""

    def __init__(self, events, runner):
        self.events, self._runner = events, runner

    def __call__(self, method, *arguments, **options):
        async def call():
            return await getattr(self.events, method)(*arguments, **options)

        return self._runner.run(call())

    @staticmethod
    async def entered(client):
        return await client

    @staticmethod
    async def left(client):
        await client.close()


def listening(plain, channel):
    """How many connections listen to a channel."""
    return plain.execute_command("PUBSUB", "NUMSUB", channel)[1]


def names(subscriber, count):
    """The names of the next events, so many."""
    return [next(subscriber).name for _ in range(count)]


def refusal(call):
    """The code and the subject of the error that a call raises."""
    try:
        call()
    except echomq.EchoMQError as error:
        return error.code, error.subject
    return None
