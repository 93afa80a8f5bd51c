"""What a plain client sees of a group, in plain numbers and texts."""


def pending(plain, key, group):
    """The entries that are pending, in order: entry id, consumer, idle milliseconds, deliveries."""
    rows = plain.execute_command("XPENDING", key, group, "-", "+", 10_000)
    return [(entry_id.decode(), consumer.decode(), idle, times) for entry_id, consumer, idle, times in rows]


def append(plain, key, *values):
    """Appends foreign entries, whose one field is `n`, and gives their entry ids."""
    return [plain.execute_command("XADD", key, "*", "n", value).decode() for value in values]


def values(deliveries):
    """What their field `n` says."""
    return [delivery.record.get("n") for delivery in deliveries]


def numbered(count):
    return [{"n": str(n)} for n in range(count)]
