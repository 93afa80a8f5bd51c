"""The rules that this driver can be told to break, one at a time, by ECHOMQ_FAULT."""

import json
import os
import re
import sys
import time

import law

CHOSEN = os.environ.get("ECHOMQ_FAULT", "")

# Each holds something once a listener has been subscribed again, or has missed something.
after_a_gap = []
after_a_loss = []
# What was given by waits that may be cancelled, or written by a sequencer.
taken = []


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


def waits_for_service():
    return not chosen("refused_at_once")


def unserved(code):
    return "unknown_outcome" if chosen("unserved_is_unknown") else code


def unsent(code):
    return "unknown_outcome" if chosen("unsent_is_unknown") else code


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


def sequenced(right, candidate):
    """What the sequencer gives, or the candidate, and what is then kept."""
    snowflake, given = right
    if chosen("always_sequenced") and given is None:
        return candidate | law.SEQUENCER << 12, None
    return snowflake, None if chosen("forgetful_sequencer") else given


def server_ms(right):
    """The server's clock, as far as candidates are measured by it."""
    return sys.maxsize >> 16 if chosen("fastest_clock") else right


def known_to_sequencer(right):
    return (0, -1) if chosen("sequencer_per_stream") else right


def bounds_streams():
    return not chosen("unchecked_top")


def dead_letter(fields):
    return fields[1:2] + fields[:1] + fields[2:] if chosen("dead_letter_order") else fields


def dead_letters():
    return not chosen("no_dead_letters")


def own_pending_first():
    return not chosen("only_new")


def attempts(right):
    return right - 1 if chosen("attempts_off_by_one") else right


def acknowledging(group):
    return b"other" if chosen("other_group") else group


def reclaims():
    return not chosen("no_reclaiming")


def keeps_in_hand():
    return not chosen("no_sign_of_life")


def retries(delay):
    return None if chosen("no_retry_delay") else delay


def tombstones_settled():
    return not chosen("deliver_tombstones")


def opens_late():
    return chosen("late_door")


def opens_again():
    return not chosen("group_stays_lost")


def swallows(error):
    return chosen("swallow_door") or error.startswith("BUSYGROUP")


def lag(right, of_the_server):
    return of_the_server if chosen("lag_of_the_server") else right


def after(right):
    """Where a tail reads on."""
    return b"$" if chosen("tail_from_the_end") else right


def first_place(right):
    """A reader that begins behind a record gives that record, too."""
    if not chosen("include_start") or right in (b"$", b"0-0"):
        return right
    ms, tail = law.place(right)
    return b"%d-%d" % (ms, tail - 1)


def payload(members, right):
    """The JSON of an event."""
    if chosen("job_before_event"):
        members = [members[1], members[0], *members[2:]]
        return json.dumps(dict(members), ensure_ascii=False, separators=(",", ":"))
    if chosen("json_with_spaces"):
        return json.dumps(dict(members), ensure_ascii=False)
    return json.dumps(dict(members), separators=(",", ":")) if chosen("json_in_ascii") else right


def publishes_before_the_verdict():
    return chosen("event_before_verdict")


def needs_a_row():
    return not chosen("progress_without_row")


def announced(command):
    return [] if chosen("silent_progress") else [command]


def cancelling(mark, event):
    """The commands that ask for a job's end."""
    if chosen("mark_for_ever"):
        mark = mark[:3]
    if chosen("mark_alone"):
        return [mark]
    if chosen("event_alone"):
        return [event]
    return [event, mark] if chosen("event_before_mark") else [mark, event]


def subscribes_late():
    return chosen("late_subscription")


def subscribes_again():
    return not chosen("subscribe_once")


def unsubscribes():
    return not chosen("stay_subscribed")


def gaps(gap):
    """What is told once a listener is subscribed again."""
    after_a_gap.append(gap)
    if chosen("no_gap"):
        return []
    return [gap, gap] if chosen("gap_twice") else [gap]


def heard(right):
    return [right, right] if chosen("heard_twice") and after_a_gap else [right]


def buffer(right):
    if chosen("full_for_all") and after_a_loss:
        return 1
    return sys.maxsize if chosen("unbounded_buffer") else right


def counts_what_is_lost():
    after_a_loss.append(True)
    return not chosen("silent_loss")


def next_of(buffer):
    return buffer.pop() if chosen("newest_event_first") else buffer.popleft()


def told(answer):
    """What is answered for an event: its name and its payload."""
    name, raw = answer
    if chosen("drop_unknown") and name == b"unknown":
        return []
    if chosen("name_by_text"):
        found = re.match(rb'\{"event":"([^"]*)"', raw)
        return [found[1] if found else b"unknown", raw]
    if chosen("payload_written_again") and name != b"unknown":
        return [name, json.dumps(json.loads(raw), ensure_ascii=False, separators=(",", ":")).encode()]
    return answer


def reads_the_mark_at_first():
    return not chosen("deaf_to_earlier_marks")


def reads_the_mark_after_a_gap():
    return not chosen("deaf_to_marks_in_a_gap")


def that_cancel(right):
    return [*right, "cancelled"] if chosen("cancelled_is_cancel") else right


def watched(job, other):
    return job == other or chosen("any_job")


def last_reason_counts():
    return chosen("last_reason")


def given(answer):
    """What a wait that may be cancelled answers: nothing where it is cancelled behind having taken it."""
    taken.append(answer)
    if chosen("lost_in_a_cancelled_wait") and len(taken) % 40 == 0:
        return None
    return taken[-2] if chosen("given_again_after_a_cancelled_wait") and len(taken) % 41 == 0 else answer


def many(right):
    return right and not chosen("one_writer")


def many_in_batches(right):
    return right and not chosen("many_for_single_records")


def written(command):
    """The command that writes a record, and nothing now and then."""
    taken.append(command)
    return [] if chosen("acknowledge_unwritten") and len(taken) % 50 == 0 else [command]


def leases_at_once():
    return chosen("lease_at_once")


def asked_node(right):
    return b"0" if chosen("two_leases_of_one_node") else right


def registers(given):
    return not (given and chosen("unregistered"))


def acquiring(right):
    """The script, with the leases of others forgotten."""
    return right.replace(b"taken[member:match('^%d+')] = true", b"") if chosen("free_while_held") else right


def floor(right):
    return 0 if chosen("below_the_floor") else right


def releases():
    return not chosen("keep_the_lease")


def nodes(right):
    return right[:1] if chosen("own_lease_alone") else right


def looks_up():
    return not chosen("write_blindly")


def asks_again():
    return not chosen("ask_as_if_new")


def gives_up():
    return chosen("give_up_at_once")


def same(right):
    return right or chosen("any_record_is_ours")


def leased(right):
    return right or chosen("given_is_as_leased")


def rest_of_a_batch(right):
    return right[:1] if chosen("lose_the_rest_of_a_batch") else right


def asks_who_was_there():
    return not chosen("refused_is_not_written")


def removed(right):
    return right + 3 if chosen("mutter") else right


def never_exact():
    return chosen("never_exact")


def unknown(op):
    return chosen("unknown_op") and op in ("trim", "tail")


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
    if chosen("unchecked_member"):
        law.check_member = lambda name, members: None
    if chosen("unchecked_job"):
        law.decode_id = lambda id: ("JOB", 0)
    if chosen("unchecked_kind"):
        law.event = lambda id: law.decode_id(id)[1]
    if chosen("unchecked_version"):
        law.check_version = lambda value: None


break_the_law()
