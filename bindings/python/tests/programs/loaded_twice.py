"""The package is loaded again, in each way there is; each copy catches the errors of the other."""

import importlib
import sys

import echomq

url, name, way = sys.argv[1:]
first = echomq
client = first.Client(url)

if way == "reload":
    for module in ("errors", "_events", "_handlers", "aio"):
        importlib.reload(sys.modules[f"echomq.{module}"])
    second = importlib.reload(echomq)
else:
    for module in [module for module in sys.modules if module.partition(".")[0] == "echomq"]:
        del sys.modules[module]
    second = importlib.import_module("echomq")
    assert second is not first


def caught(raising, catching):
    try:
        raising.Keyspace("no spaces")
    except catching.InvalidNameError as error:
        return error.code if isinstance(error, catching.EchoMQError) else None
    return None


token = first.CancelToken()
token.cancel("over")
try:
    token.raise_if_cancelled()
except second.Cancelled as cancelled:
    print(cancelled)
announced = client.events(name).append_and_publish(name, {}, "added", "JOB000xY9Wvvcd")
assert isinstance(announced, second.Announced)
assert isinstance(announced, first.Announced)
print(caught(first, second), caught(second, first), caught(second, second))
client.close()
