"""The rules that this driver can be told to break, one at a time, by ECHOMQ_FAULT."""

import os
import sys
import time

import law

CHOSEN = os.environ.get("ECHOMQ_FAULT", "")


def chosen(name):
    return CHOSEN == name


def xadd(key, snowflake, fields):
    """The command that writes a record."""
    id = law.branded(snowflake).encode()
    head = [(b"id", id)]
    if chosen("sort_fields"):
        fields = sorted(fields)
    if chosen("trim_value"):
        fields = [(name, value.strip()) for name, value in fields]
    if chosen("drop_duplicate"):
        fields = list(dict(fields).items())
    if chosen("drop_empty"):
        fields = [(name, value) for name, value in fields if value]
    if chosen("decode_text"):
        fields = [(name, value.decode(errors="replace").encode()) for name, value in fields]
    if chosen("truncate_value"):
        fields = [(name, value[:65535]) for name, value in fields]
    if chosen("rename_id"):
        head = [(b"_id", id)]
    record = fields + head if chosen("late_id") else head + fields
    place = b"*" if chosen("server_id") else law.entry_text(snowflake)
    name = b"xadd" if chosen("lower_case") else b"XADD"
    return [name, key, place, *(part for pair in record for part in pair)]


def around_append(connection, key):
    """Leaves the same entries, but not the same stream."""
    if chosen("leave_trace"):
        connection.pipeline([(b"XADD", key, b"0-1", b"x", b"x"), (b"XDEL", key, b"0-1")])


def cell(instant, right):
    """Never borrows from the next millisecond."""
    return instant << 12 | right & 0xFFF if chosen("no_borrowing") else right


def bounds_clocks():
    return not chosen("unchecked_clock")


def on_open(cells):
    if chosen("cell_per_connection"):
        cells.clear()


def receipt(right):
    return right + 1 if chosen("wrong_receipt") else right


def tries_again():
    return chosen("new_id_behind_the_back")


def as_read(fields):
    if chosen("read_as_text"):
        return [field.decode(errors="replace").encode() for field in fields]
    return fields


def count(right):
    return 0 if chosen("ignore_count") else right


def slot(right):
    return right + 1 if chosen("wrong_slot") else right


def last_tail(right):
    return 0 if chosen("open_window") else right


def exclusive(right):
    return b"" if chosen("inclusive_bound") else right


def backwards(right):
    return b"XRANGE" if chosen("oldest_first") else right


def ends(start, end):
    return (end, start) if chosen("oldest_first") else (start, end)


def one_page():
    return chosen("one_page")


def next_page(right):
    return right[1:] if chosen("repeat_border") else right


def foreign(answer):
    if chosen("skip_foreign"):
        return None
    return answer[:2] if chosen("bare_foreign") else answer


def stops_a_batch():
    return chosen("stop_batch")


def atomic_in_parts():
    return chosen("atomic_in_parts")


def removed(right):
    return right + 3 if chosen("mutter") else right


def never_exact():
    return chosen("never_exact")


def unknown(op):
    return chosen("unknown_op") and op == "trim"


def before(op):
    """Faults of the driver itself."""
    if op != "trim":
        return
    if chosen("hang"):
        time.sleep(3600)
    if chosen("mutter"):
        print("told to mutter", file=sys.stderr, flush=True)
    if chosen("die"):
        sys.exit("told to die")
    if chosen("chatter"):
        print("debugging", flush=True)


def at_the_end():
    if chosen("linger"):
        time.sleep(3600)


def break_the_law():
    """Takes away what the law refuses."""
    if chosen("unchecked_name"):
        law.check_name = lambda what, name: None
    if chosen("unchecked_record"):
        law.check_record = lambda fields: None
    if chosen("unchecked_kind"):
        law.event = lambda id: law.decode_id(id)[1]
    if chosen("unchecked_version"):
        law.check_version = lambda value: None


break_the_law()
