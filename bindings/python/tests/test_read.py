"""Reading and trimming, of records that a plain client wrote or reads."""

from datetime import UTC, datetime, timedelta, timezone

import echomq
import pytest

T = datetime(2025, 1, 1, tzinfo=UTC)
T_MS = 1_735_689_600_000


@pytest.fixture
def written(plain, key):
    """Ten records, one a millisecond from T on, of node 0."""
    ids = ["EVT09nSpDrNwci", "EVT09nSpDrfXkm", "EVT09nSpDrx8sq", "EVT09nSpDsEk0u", "EVT09nSpDsWL8y"]
    for n, id in enumerate(ids):
        plain.execute_command("XADD", key, f"{T_MS + n}-0", "id", id, "n", n)
    return ids


def numbers(records):
    return [record.get("n") for record in records]


def test_bounds_are_ids_inclusive_or_exclusive(stream, written):
    assert numbers(stream.read()) == ["0", "1", "2", "3", "4"]
    assert numbers(stream.read("-", "+")) == ["0", "1", "2", "3", "4"]
    assert numbers(stream.read(written[1], written[3])) == ["1", "2", "3"]
    assert numbers(stream.read("(" + written[1], "(" + written[3])) == ["2"]
    assert numbers(stream.read(last=written[1])) == ["0", "1"]
    assert numbers(stream.read(written[3], limit=1)) == ["3"]


@pytest.mark.parametrize(
    ("bound", "error"),
    [
        ("EVT", echomq.MalformedIdError),
        ("", echomq.MalformedIdError),
        ("\udcff", echomq.MalformedIdError),
        ("USR0KHTOWnGLuC", echomq.KindError),
        ("(JOB09nSpDrNwci", echomq.KindError),
    ],
)
def test_bounds_that_are_no_ids(stream, bound, error):
    with pytest.raises(error):
        stream.read(bound)
    with pytest.raises(error):
        stream.read(None, bound)


def test_pages_and_iterating_go_on_where_the_other_was(stream, written):
    reader = stream.read(page_size=2)
    assert next(reader).get("n") == "0"
    assert numbers(reader.next_page()) == ["1"]
    assert numbers(reader.next_page()) == ["2", "3"]
    assert numbers(reader.all()) == ["4"]
    assert reader.next_page() is None
    assert reader.all() == []
    assert list(reader) == []


def test_every_page_size_and_limit_gives_the_same_records(stream, written):
    for page_size in (1, 2, 3, 5, 6, 1_000):
        assert numbers(stream.read(page_size=page_size)) == ["0", "1", "2", "3", "4"]
        for limit in range(7):
            assert numbers(stream.read(limit=limit, page_size=page_size)) == ["0", "1", "2", "3", "4"][:limit]
    for page_bytes in (0, 1, 100, 2**64 - 1):
        assert numbers(stream.read(page_bytes=page_bytes)) == ["0", "1", "2", "3", "4"]
    assert [len(page) for page in iter(stream.read(page_bytes=1).next_page, None)][1:] == [1] * 4
    assert numbers(stream.read_last(3, page_size=2, page_bytes=1)) == ["4", "3", "2"]
    assert numbers(stream.read_last(0)) == []


def test_windows_are_closed_and_cut_to_the_millisecond(stream, written):
    ms = timedelta(milliseconds=1)
    us = timedelta(microseconds=1)
    assert numbers(stream.read_window(T + ms, T + 3 * ms)) == ["1", "2", "3"]
    assert numbers(stream.read_window(T + ms + 999 * us, T + 2 * ms + 999 * us)) == ["1", "2"]
    assert numbers(stream.read_window(T + ms - us, T + ms - us)) == ["0"]
    assert numbers(stream.read_window(T, T)) == ["0"]
    assert numbers(stream.read_window(T - timedelta(days=60_000), T)) == ["0"]
    assert numbers(stream.read_window(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), limit=2)) == [
        "0",
        "1",
    ]
    assert numbers(stream.read_since(T + 3 * ms)) == ["3", "4"]
    assert numbers(stream.read_since(T, limit=3, page_size=1)) == ["0", "1", "2"]


def test_every_time_zone_names_the_same_instant(stream, written):
    there = T.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert numbers(stream.read_window(there, there)) == ["0"]
    # A wall clock read literally would be hours away.
    assert numbers(stream.read_window(there.replace(tzinfo=UTC), there.replace(tzinfo=UTC))) == []


def test_what_is_no_instant_is_refused(stream):
    naive = datetime(2025, 1, 1)
    for call in (
        lambda: stream.read_window(naive, T),
        lambda: stream.read_window(T, naive),
        lambda: stream.read_since(naive),
        lambda: stream.trim(min_id=naive),
    ):
        with pytest.raises(echomq.InvalidOptionError, match="time zone"):
            call()
    for value in (T_MS, T.date(), "2025-01-01", None):
        with pytest.raises(TypeError, match="datetime"):
            stream.read_since(value)
    with pytest.raises(echomq.InvalidWindowError):
        stream.read_window(T, T - timedelta(milliseconds=1))


@pytest.mark.parametrize("value", [-1, 2**64])
def test_counts_out_of_bounds(stream, value):
    for call in (
        lambda: stream.read(limit=value),
        lambda: stream.read(page_size=value),
        lambda: stream.read(page_bytes=value),
        lambda: stream.tail("head", page_bytes=value),
        lambda: stream.read_last(value),
        lambda: stream.trim(max_len=value),
    ):
        with pytest.raises(echomq.InvalidOptionError):
            call()


def test_what_is_no_count_is_a_type_error(stream):
    for value in ("1", 1.0):
        with pytest.raises(TypeError, match="an int"):
            stream.read_last(value)


def test_foreign_entries_are_marked_and_whole(stream, plain, key):
    plain.execute_command("XADD", key, "5-1", "a", "1", "a", "2")
    plain.execute_command("XADD", key, "1735689600000-0", "id", "EVT09nSpDrfXkm", "n", "1")
    plain.execute_command("XADD", key, "1735689600001-0", "id", "EVT09nSpDrfXkm", "n", "2")
    first, second, third = stream.read()
    assert (first.id, first.entry_id, first.foreign) == (None, "5-1", True)
    assert first.fields == [("a", "1"), ("a", "2")]
    assert (second.id, second.foreign, second.get("id")) == (None, True, "EVT09nSpDrfXkm")
    assert (third.id, third.foreign, third.fields) == ("EVT09nSpDrfXkm", False, [("n", "2")])
    assert repr(third) == "Record(id='EVT09nSpDrfXkm', entry_id='1735689600001-0', fields=[('n', '2')])"
    assert third == next(stream.read_last(1))
    assert third != first


def test_get_knows_text_bytes_and_a_default(stream, written):
    record = next(stream.read())
    assert (record.get("n"), record.get(b"n"), record.get("m"), record.get("m", 0)) == ("0", "0", None, 0)


def test_an_error_of_the_server_leaves_the_reader_where_it_was(stream, plain, key, name, written):
    reader = stream.read(page_size=2)
    next(reader)
    plain.rename(key, f"{key}:away")
    plain.set(key, "no stream")
    assert next(reader).get("n") == "1"
    with pytest.raises(echomq.WrongTypeError):
        next(reader)
    with pytest.raises(echomq.WrongTypeError):
        reader.all()
    plain.rename(f"{key}:away", key)
    assert numbers(reader.all()) == ["2", "3", "4"]


def test_trim(stream, plain, key, written):
    assert stream.trim(max_len=4, exact=True) == 1
    assert stream.trim(min_id=T + timedelta(milliseconds=3, microseconds=999), exact=True) == 2
    assert [entry_id for entry_id, _ in plain.xrange(key)] == [b"1735689600003-0", b"1735689600004-0"]
    # Approximate trimming lets go of whole nodes only, and this stream has but one.
    assert stream.trim(max_len=1) == 0
    assert stream.trim(max_len=0, exact=True) == 2
    for arguments in ({}, {"max_len": 1, "min_id": T}, {"exact": True}):
        with pytest.raises(TypeError, match="max_len or min_id"):
            stream.trim(**arguments)
