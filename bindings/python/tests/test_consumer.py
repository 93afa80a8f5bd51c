"""The consumer that waits on the threads of its callers, seen through a plain client."""

import gc
import threading
from datetime import UTC, datetime, timedelta

import echomq
import pytest
from consuming import append, numbered, pending, values
from waiting import wait_until

SOON = timedelta(seconds=60)
HOUR = timedelta(hours=1)


def take(consumer, count):
    return [next(consumer) for _ in range(count)]


def test_a_loop_gives_every_entry_once_and_in_order(stream, plain, key):
    ids = stream.append_batch(numbered(250))
    with stream.consumer("g", start="head") as consumer:
        found = []
        for delivery in consumer:
            found.append((delivery.id, delivery.entry_id, delivery.attempts, delivery.group, delivery.record.fields))
            delivery.ack()
            if len(found) == 250:
                break
        consumer.flush()
        assert pending(plain, key, "g") == []
    assert found == [(id, echomq.Id(id).entry_id, 1, "g", [("n", str(n))]) for n, id in enumerate(ids)]


@pytest.mark.parametrize("way", ["new", "head", "id", "instant"])
def test_a_group_begins_where_it_is_told(stream, way):
    stream.append_id("EVT09nSpDrNwci", {"n": "0"})
    second = stream.append({"n": "1"})
    start = {"new": "new", "head": "head", "id": "EVT09nSpDrNwci", "instant": echomq.Id(second).instant}[way]
    with stream.consumer("g", start=start) as consumer:
        stream.append({"n": "2"})
        expected = {"new": ["2"], "head": ["0", "1", "2"], "id": ["1", "2"], "instant": ["1", "2"]}[way]
        assert values(take(consumer, len(expected))) == expected


def test_where_a_group_begins_is_never_assumed(stream, plain, key):
    with pytest.raises(echomq.InvalidOptionError, match="`new`, `head`, an id") as caught:
        stream.consumer("g")
    assert caught.value.subject == "start"
    for start, error in (
        ("$", echomq.MalformedIdError),
        ("JOB09nSpDrfawy", echomq.KindError),
        ("@", echomq.InvalidOptionError),
        (datetime(2025, 1, 1), echomq.InvalidOptionError),
        (5.5, TypeError),
    ):
        with pytest.raises(error):
            stream.consumer("g", start=start)
    assert plain.execute_command("EXISTS", key) == 0


def test_what_is_appended_after_the_start_is_seen(stream):
    for number in range(20):
        with stream.consumer(f"g{number}", start="new") as consumer:
            id = stream.append({})
            assert next(consumer).id == id


def test_options_are_checked_by_the_core(stream, plain, key):
    for name, value in (
        ("count", 0),
        ("count", "many"),
        ("concurrency", 0),
        ("beat", timedelta(0)),
        ("min_idle", -5),
        ("max_attempts", 0),
        ("retry", (200, 100)),
        ("retry", timedelta(hours=1)),
        ("on_foreign", "ignore"),
        ("max_n", 1_000),
        ("page_bytes", 0),
        ("no_such_option", 1),
        ("order_by", "\udcff"),
    ):
        with pytest.raises(echomq.InvalidOptionError) as caught:
            stream.consumer("g", start="head", **{name: value})
        assert caught.value.subject == name
    for value in (1.5, object(), True, (1, 2, 3)):
        with pytest.raises(TypeError, match="the option retry"):
            stream.consumer("g", start="head", retry=value)
    for group, options in (("a:b", {}), ("STREAMS", {}), ("g", {"consumer": "no spaces"})):
        with pytest.raises(echomq.InvalidNameError):
            stream.consumer(group, start="head", **options)
    assert plain.execute_command("EXISTS", key) == 0


def test_a_key_of_another_type_is_refused(stream, plain, key):
    plain.set(key, "no stream")
    with pytest.raises(echomq.WrongTypeError) as caught:
        stream.consumer("g", start="head")
    assert caught.value.subject == key


def test_a_consumer_has_a_name(stream):
    with stream.consumer("g", start="head", consumer="mailer-1") as one, stream.consumer("g", start="head") as other:
        assert (one.group, one.name, other.group) == ("g", "mailer-1", "g")
        assert len(other.name) == 26
        assert repr(one).startswith("<echomq.Consumer(")
        wait_until(
            lambda: {consumer.name for consumer in stream.group("g").consumers} == {one.name, other.name}, "known"
        )


def test_a_delivery_gets_one_verdict(stream):
    stream.append_batch(numbered(4))
    with stream.consumer("g", start="head", retry=0) as consumer:
        first, second, third, fourth = take(consumer, 4)
        first.ack()
        second.fail("why")
        third.give_back()
        verdicts = [
            lambda delivery: delivery.ack(),
            lambda delivery: delivery.fail(b"why"),
            lambda delivery: delivery.give_back(),
            lambda delivery: delivery.extend(),
        ]
        for delivery in (first, second, third):
            for verdict in verdicts:
                with pytest.raises(echomq.StateError) as caught:
                    verdict(delivery)
                assert caught.value.subject == delivery.entry_id
        fourth.extend()
        for wrong in (5, None):
            with pytest.raises(TypeError):
                fourth.fail(wrong)
        with pytest.raises(echomq.InvalidOptionError):
            fourth.fail("why", delay=timedelta(seconds=-1))
        fourth.ack()
        # What they say stays, whether it was asked before the verdict or not.
        assert values([first, second, third, fourth]) == ["0", "1", "2", "3"]
        assert repr(first) == f"Delivery(id='{first.id}', entry_id='{first.entry_id}', attempts=1, group='g')"


def test_what_is_given_back_comes_first(stream):
    stream.append_batch(numbered(3))
    with stream.consumer("g", start="head") as consumer:
        next(consumer).give_back()
        assert [(d.record.get("n"), d.attempts) for d in take(consumer, 3)] == [("0", 1), ("1", 1), ("2", 1)]


def test_what_is_dropped_stays_pending(stream, plain, key):
    id = stream.append({})
    with stream.consumer("g", start="head", consumer="c") as consumer:
        next(consumer)
        gc.collect()
        assert consumer.stop(HOUR) == 0
    assert [row[:2] for row in pending(plain, key, "g")] == [(echomq.Id(id).entry_id, "c")]


def test_a_failure_comes_back_and_becomes_a_dead_letter(stream):
    id = stream.append({"n": "1"})
    with stream.consumer("g", start="head", retry=1, max_attempts=3) as consumer:
        for attempt in (1, 2, 3):
            delivery = next(consumer)
            assert (delivery.id, delivery.attempts) == (id, attempt)
            delivery.fail(b"why \xff", delay=timedelta(0))
        consumer.flush()
    [letter] = stream.dead_letters()
    assert letter.get("error") == "why \udcff"
    assert (letter.get("origin"), letter.get("group"), letter.get("attempts")) == (id, "g", "3")


def test_foreign_entries_have_no_id(stream, plain, key):
    [entry_id] = append(plain, key, "x")
    with stream.consumer("g", start="head") as consumer:
        delivery = next(consumer)
        assert (delivery.id, delivery.entry_id, delivery.record.foreign) == (None, entry_id, True)
        delivery.ack()
    with stream.consumer("h", start="head", on_foreign="skip") as consumer:
        id = stream.append({})
        assert next(consumer).id == id


def test_next_waits_no_longer_than_it_is_told(stream):
    with stream.consumer("g", start="head") as consumer:
        assert consumer.next(timedelta(0)) is None
        assert consumer.next(timedelta(milliseconds=150)) is None
        assert consumer.next_batch(timedelta(milliseconds=1)) == []
        id = stream.append({})
        assert consumer.next(SOON).id == id
        with pytest.raises(echomq.InvalidOptionError):
            consumer.next(timedelta(seconds=-1))
        with pytest.raises(TypeError):
            consumer.next(5)
    assert consumer.next() is None
    assert consumer.next_batch() == []
    assert list(consumer) == []


def test_batches(stream, plain, key):
    stream.append_batch(numbered(25))
    with stream.consumer("g", start="head", max_n=10, max_wait=50) as consumer:
        sizes = []
        while sum(sizes) < 25:
            batch = consumer.next_batch(SOON)
            sizes.append(len(batch))
            for delivery in batch:
                delivery.ack()
        assert max(sizes) <= 10
        consumer.flush()
    assert pending(plain, key, "g") == []


def test_a_batch_waits_for_more(stream):
    with stream.consumer("g", start="head", max_n=3, max_wait=HOUR) as consumer:
        stream.append_batch(numbered(2))
        threading.Timer(0.05, stream.append, [{"n": "2"}]).start()
        assert values(consumer.next_batch()) == ["0", "1", "2"]


def test_pausing(stream):
    with stream.consumer("g", start="head") as consumer:
        consumer.pause()
        stream.append({"n": "0"})
        assert consumer.next(timedelta(milliseconds=20)) is None
        consumer.resume()
        assert values([consumer.next(SOON)]) == ["0"]


def test_no_more_than_count_are_held_ahead(stream, plain, key):
    stream.append_batch(numbered(100))
    with stream.consumer("g", start="head", count=10) as consumer:
        for handled in range(1, 31):
            delivery = next(consumer)
            assert len(pending(plain, key, "g")) <= 10 + 1
            delivery.ack()
            consumer.flush()
            assert int(delivery.record.get("n")) == handled - 1


def test_a_stop_gives_back_what_was_not_begun(stream, plain, key):
    """Another consumer has it at once, and not after `min_idle`."""
    ids = stream.append_batch(numbered(50))
    with stream.consumer("g", start="head", count=50, min_idle=HOUR, consumer="a") as one:
        delivery = next(one)
        wait_until(lambda: len(pending(plain, key, "g")) > 40, "most are fetched")
        assert one.stop() == 1
        assert one.stop(HOUR) == 1
        assert next(one, None) is None
        with stream.consumer("g", start="head", min_idle=HOUR, beat=10) as other:
            assert sorted(delivery.id for delivery in take(other, 49)) == ids[1:]
        # The verdict still counts.
        delivery.ack()
        wait_until(lambda: len(pending(plain, key, "g")) == 49, "the first one is acknowledged")


def test_a_stop_waits_for_what_is_in_hand(stream, plain, key):
    stream.append({})
    consumer = stream.consumer("g", start="head")
    delivery = next(consumer)
    left = []
    thread = threading.Thread(target=lambda: left.append(consumer.stop(HOUR)))
    thread.start()
    assert list(consumer) == []
    assert left == []
    delivery.ack()
    thread.join()
    assert left == [0]
    assert pending(plain, key, "g") == []


def test_one_that_is_dropped_stops(stream, client, plain, key, name):
    stream.append_batch(numbered(5))
    for delivery in stream.consumer("g", start="head", consumer="dropped", min_idle=HOUR):
        delivery.ack()
        break
    gc.collect()
    with stream.consumer("g", start="head", min_idle=HOUR, beat=10) as other:
        assert sorted(values(take(other, 4))) == ["1", "2", "3", "4"]


def test_a_consumer_ends_with_its_client(url, name):
    client = echomq.Client(url, node_id=7)
    stream = client.stream("tests", name)
    stream.append({})
    consumer = stream.consumer("g", start="head")
    delivery = next(consumer)
    # What is in hand here is not waited for: nobody else could give it its verdict.
    assert client.close() == 0
    assert delivery.attempts == 1
    assert list(consumer) == []
    with pytest.raises(echomq.ClosedError):
        stream.consumer("g", start="head")


def test_everything_is_given_as_it_is_on_the_server(stream):
    fields = [("kind", "guessed"), ("kind", b"\xff\x00"), ("", "")]
    stream.append(fields)
    with stream.consumer("g", start="head") as consumer:
        record = next(consumer).record
    assert record.raw == [(b"kind", b"guessed"), (b"kind", b"\xff\x00"), (b"", b"")]
    assert record == next(stream.read())
    assert datetime.now(UTC) - echomq.Id(record.id).instant < HOUR
