"""What every contender appends: three fields, about 170 bytes."""

import json

FIELDS = {
    "type": "order.created",
    "order": "ORD0NgWEfAEJfs",
    "data": json.dumps({"user": "u-123456", "amount": 12345, "items": [1, 2, 3, 4, 5], "note": "x" * 60}),
}
PAIRS = list(FIELDS.items())
BATCH = 1_000
COUNT = 100
THREADS = 8
IN_FLIGHT = 100
