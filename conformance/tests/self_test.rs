//! The suite tested by itself: the reference driver passes everything, and with a fault chosen it fails where it has to.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use echomq_conformance::judgement::Verdict;
use echomq_conformance::lane::{Participant, Start};
use echomq_conformance::run::{Results, run};
use echomq_conformance::suite::Suite;
use echomq_conformance::{report, root};
use echomq_tests::Kind;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

/// Each fault, the case that has to find it, and a part of what the judge then says.
const FAULTS: &[(&str, &str, &str)] = &[
    ("sort_fields", "append/order-and-duplicates", "entry 1 of the stream"),
    ("drop_duplicate", "append/order-and-duplicates", "entry 1 of the stream"),
    ("drop_empty", "append/order-and-duplicates", "entry 1 of the stream"),
    ("trim_value", "append/white space", "entry 1 of the stream"),
    ("decode_text", "append/no UTF-8", "entry 1 of the stream"),
    ("truncate_value", "append/900 KiB", "entry 1 of the stream"),
    ("rename_id", "records/EVT09nSpDrNzou", "entry 1 of the stream"),
    ("late_id", "records/EVT09nSpDrNzou", "entry 1 of the stream"),
    ("lower_case", "records/EVT09nSpDrNzou", "XADD 1: byte 10 of"),
    ("leave_trace", "append/a clock that stands still", "DUMP, against reference"),
    ("server_id", "append/a clock that goes", "entry 1 of the stream"),
    ("wrong_receipt", "append/a clock that goes", "entry 1 of the stream"),
    ("new_id_behind_the_back", "nonmonotonic/another writer ahead", "instead of nonmonotonic"),
    ("no_borrowing", "mint/a burst borrows", "value 4097"),
    ("cell_per_connection", "mint/one cell for a process and node", "reply 5 (mint)"),
    ("stop_batch", "batch/one bad record among good ones", "reply 1 (append_batch)"),
    ("atomic_in_parts", "atomic/none with a reserved field", "the server holds the keys"),
    ("ignore_count", "read/counts", "reply 1 (read)"),
    ("inclusive_bound", "read/bounds", "reply 3 (read)"),
    ("one_page", "read/paged", "reply 1 (read)"),
    ("repeat_border", "read/paged", "reply 1 (read)"),
    ("oldest_first", "read/last", "reply 1 (read_last)"),
    ("skip_foreign", "read/foreign entries", "reply 1 (read)"),
    ("bare_foreign", "read/foreign entries", "reply 1 (read)"),
    ("read_as_text", "read/values as they are", "reply 1 (read)"),
    ("open_window", "windows/both edges", "reply 1 (read_window)"),
    ("never_exact", "trim/exact length", "reply 1 (trim)"),
    ("wrong_slot", "keys/emq:{q}:stream:events", "reply 1 (key)"),
    ("unchecked_name", "names/invalid queue a:b", "instead of invalid_name"),
    ("unchecked_record", "refusals/a field named id", "instead of reserved_field"),
    ("unchecked_record", "refusals/too large", "instead of too_large"),
    ("unchecked_kind", "ids/kind JOB000xY9Wvvcd", "instead of kind"),
    ("unchecked_clock", "mint/a clock that runs ahead", "instead of clock_ahead"),
    ("unchecked_version", "fence/refused echomq:4.0.0", "instead of version_fence"),
    ("mutter", "trim/nothing there", "value 1 is 3, expected 0; its standard error: told to mutter"),
    (
        "die",
        "trim/nothing there",
        "exit status: 1 instead of answering trim; its standard error: told to die",
    ),
    ("chatter", "trim/nothing there", "a line that does not answer request"),
];

/// Each fault, the scene that has to find it, and a part of what the judge then says.
const SCENE_FAULTS: &[(&str, &str, &str)] = &[
    (
        "always_sequenced",
        "sequencer/a candidate above the top is kept",
        "(append_sequenced in broken): value 1",
    ),
    (
        "forgetful_sequencer",
        "sequencer/a candidate that is not above the top",
        "(append_sequenced in broken): value 1",
    ),
    (
        "sequencer_per_stream",
        "sequencer/two streams of a queue",
        "step 4 (append_sequenced in broken): value 1",
    ),
    ("unchecked_top", "sequencer/a stream that runs ahead", "instead of stream_ahead"),
    ("decode_text", "sequencer/fields as they are", "(XRANGE of the plain client): value 5"),
    ("tail_from_the_end", "tail/new behind records", "(next in broken): 0 values instead of 4"),
    ("include_start", "tail/behind a record", "(next in broken): value 1 is EVT00000000002"),
    ("skip_foreign", "tail/foreign entries", "(next in broken): value 1 is EVT00000000003"),
    ("late_door", "consumer/new before there is a stream", "value 1 is none, expected stream"),
    ("attempts_off_by_one", "consumer/head", "(next in broken): value 3 is 0, expected 1"),
    ("include_start", "consumer/behind a record", "(next in broken): value 1 is EVT00000000002"),
    ("only_new", "consumer/own pending entries first", "(next in broken): value 1 is EVT00000000004"),
    ("no_retry_delay", "consumer/retry delay", "(next in broken): 0 values instead of 5"),
    ("no_sign_of_life", "consumer/in hand for long", "(next in broken): 5 values instead of 0"),
    ("deliver_tombstones", "consumer/trimmed before it was handled", "expected EVT00000000002"),
    ("bare_foreign", "consumer/foreign entries", "(next in broken): 3 values instead of 5"),
    ("read_as_text", "consumer/bytes as they are", "(next in broken): value 5"),
    ("group_stays_lost", "consumer/the group is lost", "step 9 (next in broken): 0 values"),
    ("swallow_door", "consumer/a key that holds something else", "instead of wrong_type"),
    ("unchecked_name", "consumer/names", "instead of invalid_name"),
    ("no_reclaiming", "peers/a dead peer", "(next in broken): 0 values instead of 5"),
    ("other_group", "peers/two groups", "(XPENDING of the plain client)"),
    ("dead_letter_order", "dead letters/the last attempt", "value 4 is group, expected origin"),
    // Before the good record or behind it, as the scan comes: the record that kills is handed out once more.
    ("no_dead_letters", "dead letters/a record that kills", "(next in broken)"),
    (
        "lag_of_the_server",
        "group info/trimmed ahead of the group",
        "(group.info in broken): value 2 is 4, expected 1",
    ),
];

/// The same of writers, leases, cancelled waits and lost answers.
const NETWORK_FAULTS: &[(&str, &str, &str)] = &[
    ("lost_in_a_cancelled_wait", "cancelled waits/a consumer", "instead of number 40: value 1"),
    ("lost_in_a_cancelled_wait", "cancelled waits/a tail", "instead of number 40: value 1"),
    ("lost_in_a_cancelled_wait", "cancelled waits/a listener", "instead of number 40: value 2"),
    ("given_again_after_a_cancelled_wait", "cancelled waits/a tail", "instead of number 41: value 1"),
    ("attempts_off_by_one", "cancelled waits/a consumer", "instead of number 1: value 3"),
    (
        "one_writer",
        "writers/many, with a clock that is behind",
        "(append in broken): Err { code: \"nonmonotonic\"",
    ),
    (
        "many_for_single_records",
        "writers/many, with a clock that is behind",
        "(append_batch in broken): value 1",
    ),
    ("fastest_clock", "writers/many, with a clock that is ahead", "(EVAL of the plain client): value 1 is %"),
    ("one_writer", "writers/in turns", "(writing): append"),
    ("acknowledge_unwritten", "writers/all at once", "was answered as written, and is not there"),
    ("lease_at_once", "leases/on the first mint", "the nodes [0] are leased, expected []"),
    ("keep_the_lease", "leases/on the first mint", "the nodes [0] are leased, expected []"),
    ("two_leases_of_one_node", "leases/each its own node", "are leased, expected [0, 1, 2]"),
    ("own_lease_alone", "leases/each its own node", "the keys hold"),
    ("unregistered", "leases/a node of one's own", "the nodes [] are leased, expected [0]"),
    ("below_the_floor", "leases/a killed holder", "(EVAL of the plain client): value 1 is %, expected 1"),
    ("free_while_held", "leases/a killed holder", "the nodes [0, 0] are leased, expected [0, 1]"),
    ("write_blindly", "answers/lost behind the writing", "(append in broken): Err { code: \"nonmonotonic\""),
    (
        "give_up_at_once",
        "answers/lost before the writing",
        "(append in broken): Err { code: \"unknown_outcome\"",
    ),
    ("lose_the_rest_of_a_batch", "answers/a batch cut on its way", "(append_batch in broken): value"),
    (
        "refused_is_not_written",
        "answers/lost, and removed before it is looked up",
        "(what was begun in broken): Err { code: \"nonmonotonic\"",
    ),
    (
        "refused_is_not_written",
        "answers/lost, and trimmed before it is looked up",
        "(what was begun in broken): Err { code: \"nonmonotonic\"",
    ),
    (
        "refused_is_not_written",
        "answers/lost, removed, and another on top",
        "(what was begun in broken): Err { code: \"nonmonotonic\"",
    ),
    (
        "given_is_as_leased",
        "answers/lost, and removed under a node that was given",
        "(what was begun in broken): Ok([",
    ),
    (
        "any_record_is_ours",
        "answers/lost, and another process's record under the id",
        "(what was begun in broken): Ok([",
    ),
    (
        "refused_at_once",
        "answers/a server that cannot serve for a time",
        "(what was begun in broken): Err { code: \"server\"",
    ),
    (
        "unserved_is_unknown",
        "answers/a server that cannot serve until the deadline",
        "(append in broken): Err { code: \"unknown_outcome\"",
    ),
    (
        "unsent_is_unknown",
        "answers/an id of one's own that was never sent",
        "(append_id in broken): Err { code: \"unknown_outcome\"",
    ),
];

/// The same of the events channel.
const CHANNEL_FAULTS: &[(&str, &str, &str)] = &[
    ("job_before_event", "events/payload of completed", "(what the plain client heard): value 1"),
    ("json_with_spaces", "events/payload of completed", "(what the plain client heard): value 1"),
    ("json_in_ascii", "events/payload of note", "(what the plain client heard): value 1"),
    ("unchecked_job", "events/malformed jobs", "instead of malformed_id"),
    ("unchecked_name", "events/names of queues", "instead of invalid_name"),
    ("unchecked_member", "events/what cannot be published", "instead of reserved_field"),
    ("name_by_text", "events/any JSON object", "(event in broken): value 1 is unknown, expected failed"),
    ("payload_written_again", "events/any JSON object", "(event in broken): value 2"),
    ("drop_unknown", "events/no JSON object", "(event in broken): 0 values instead of 2"),
    ("newest_event_first", "events/in order", "(event in broken): value 2"),
    ("late_subscription", "events/before anyone listened", "(event in broken): 0 values instead of 2"),
    ("subscribe_once", "events/a lost connection", "(event in broken): 0 values instead of 1"),
    ("no_gap", "events/a lost connection", "(event in broken): 0 values instead of 1"),
    ("gap_twice", "events/a lost connection", "(event in broken): value 1 is gap, expected e1"),
    ("heard_twice", "events/a lost connection", "(event in broken): value 1 is e1, expected e2"),
    // Between two events, or behind the last that was kept, as the listener's thread comes.
    ("silent_loss", "events/a slow listener", "step 2 (flood): "),
    ("unbounded_buffer", "events/a slow listener", "all 5000 events are kept"),
    ("full_for_all", "events/a slow listener beside a quick one", "(flood): m hears [gap] instead of event"),
    ("unchecked_version", "events/another version behind the gap", "instead of version_fence"),
    ("stay_subscribed", "events/a listener that ends", "(PUBSUB of the plain client): after"),
    ("progress_without_row", "progress/no row", "instead of gone"),
    ("event_before_verdict", "progress/no row", "(what the plain client heard): 1 value instead of 0"),
    ("silent_progress", "progress/a job with a row", "(what the plain client heard): 0 values"),
    ("mark_for_ever", "cancel/a mark and an event", "(PTTL of the plain client): value 1 is -1"),
    ("mark_alone", "cancel/a mark and an event", "(what the plain client heard): 0 values"),
    ("event_alone", "cancel/a mark and an event", "(GET of the plain client): value 1"),
    ("event_before_mark", "cancel/first the mark", "(what the plain client heard): value 1"),
    ("deaf_to_earlier_marks", "cancel/before anyone watched", "(cancelled in broken): 0 values"),
    ("deaf_to_marks_in_a_gap", "cancel/while the watcher was cut off", "(cancelled in broken): 0 values"),
    ("any_job", "cancel/another job", "(cancelled in broken): 1 value instead of 0"),
    ("cancelled_is_cancel", "cancel/what does not ask for it", "(cancelled in broken): 1 value instead of 0"),
    ("last_reason", "cancel/asked twice", "(cancelled in broken): value 1 is two, expected one"),
];

fn start(deadline: Duration) -> Start {
    Start { root: root(), deadline, long: false }
}

fn patient() -> Start {
    start(Duration::from_secs(60))
}

fn sound() -> Participant {
    Participant::language("reference")
}

fn broken(fault: &str) -> Participant {
    let environment = vec![("ECHOMQ_FAULT".to_owned(), fault.to_owned())];
    Participant { name: "broken".to_owned(), environment, ..sound() }
}

fn named(name: &str) -> Suite {
    let mut suite = Suite::load(&root()).unwrap();
    suite.retain(|found| found == name);
    assert_eq!(suite.len(), 1, "no case {name}");
    suite
}

fn verdict<'a>(results: &'a Results, row: &str, column: &str) -> &'a Verdict {
    let at = results.languages.iter().position(|language| language == column).unwrap();
    &results.rows.iter().find(|found| found.name == row).unwrap().verdicts[at]
}

#[track_caller]
fn assert_fails(results: &Results, row: &str, saying: &str) {
    match verdict(results, row, "broken") {
        Verdict::Fail(sentence) => assert!(sentence.contains(saying), "{row}: {sentence}"),
        other => panic!("{row}: {other:?}, but should say {saying:?}"),
    }
    assert_eq!(*verdict(results, row, "reference"), Verdict::Pass, "{row}");
}

#[test]
fn the_reference_passes_everything_on_every_server() {
    let suite = Suite::load(&root()).unwrap();
    for kind in Kind::ALL {
        let results = run(&suite, &[sound()], kind, &patient());
        let counts = results.counts();
        assert_eq!((counts.failed, counts.gaps), (0, 0), "{}", report::terminal(&results));
        assert!(counts.passed > suite.len());
    }
}

#[test]
fn every_fault_is_found_by_its_case() {
    for (fault, case, saying) in FAULTS {
        let results = run(&named(case), &[sound(), broken(fault)], Kind::Valkey, &patient());
        assert_fails(&results, case, saying);
    }
}

#[test]
fn every_fault_is_found_by_its_scene() {
    assert_found(SCENE_FAULTS);
}

#[test]
fn every_fault_of_writers_leases_and_networks_is_found_by_its_scene() {
    thread::scope(|scope| {
        for faults in NETWORK_FAULTS.chunks(9) {
            scope.spawn(move || assert_found(faults));
        }
    });
}

#[test]
fn every_fault_of_the_events_channel_is_found_by_its_scene() {
    // Most of the time goes by in waiting for what does not come.
    thread::scope(|scope| {
        for faults in CHANNEL_FAULTS.chunks(10) {
            scope.spawn(move || assert_found(faults));
        }
    });
}

#[track_caller]
fn assert_found(faults: &[(&str, &str, &str)]) {
    for (fault, scene, saying) in faults {
        let results = run(&named(scene), &[sound(), broken(fault)], Kind::Valkey, &patient());
        let played = |row: &str| row.starts_with(scene);
        let rows = results.rows.iter().map(|row| row.name.as_str()).filter(|row| played(row));
        let faults: Vec<_> = rows.map(|row| verdict(&results, row, "broken")).collect();
        let found =
            faults.iter().any(|verdict| matches!(verdict, Verdict::Fail(fault) if fault.contains(saying)));
        assert!(found, "{fault} in {scene} should say {saying:?}: {faults:?}");
        let alone = [(*scene).to_owned(), format!("{scene} with reference")];
        // Where there are three parts, one who is sound never plays without one who is broken.
        let suite = named(scene);
        let crowded = suite.scenes.iter().any(|scene| scene.parts.len() > 2);
        let results = if crowded { run(&suite, &[sound()], Kind::Valkey, &patient()) } else { results };
        let sound = results.rows.iter().find(|row| alone.contains(&row.name)).unwrap();
        assert_eq!(sound.verdicts[0], Verdict::Pass, "{scene}");
    }
}

#[test]
fn an_unknown_op_is_a_gap_in_a_scene() {
    let results = run(&named("tail/head"), &[sound(), broken("unknown_op")], Kind::Valkey, &patient());
    assert_eq!(*verdict(&results, "tail/head", "broken"), Verdict::Gap("tail".to_owned()));
    assert_eq!(*verdict(&results, "tail/head", "reference"), Verdict::Pass);
}

#[test]
fn a_driver_that_hangs_or_lingers_is_a_failure_and_no_hang() {
    let case = "trim/nothing there";
    let impatient = start(Duration::from_secs(10));
    let results = run(&named(case), &[sound(), broken("hang")], Kind::Valkey, &impatient);
    assert_fails(&results, case, "no reply to trim within 10 s");
    let results = run(&named(case), &[sound(), broken("linger")], Kind::Valkey, &impatient);
    assert_fails(&results, "driver/ends with its input", "goes on after its input has ended");
}

#[test]
fn a_reader_that_loses_bytes_fails_with_every_writer() {
    let results = run(&named("exchange/bytes"), &[sound(), broken("read_as_text")], Kind::Valkey, &patient());
    for writer in ["reference", "broken"] {
        let read_by = |reader| verdict(&results, &format!("pairs/exchange/bytes read by {reader}"), writer);
        assert!(matches!(read_by("broken"), Verdict::Fail(_)), "{writer}");
        assert_eq!(*read_by("reference"), Verdict::Pass, "{writer}");
    }
}

#[test]
fn a_writer_that_loses_bytes_fails_with_every_reader() {
    let results = run(&named("exchange/bytes"), &[sound(), broken("decode_text")], Kind::Valkey, &patient());
    for reader in ["reference", "broken"] {
        assert_fails(&results, &format!("pairs/exchange/bytes read by {reader}"), "entry 1 of the stream");
    }
}

#[test]
fn an_unknown_op_is_a_gap_in_every_report() {
    let results =
        run(&named("trim/nothing there"), &[sound(), broken("unknown_op")], Kind::Valkey, &patient());
    assert_eq!(*verdict(&results, "trim/nothing there", "broken"), Verdict::Gap("trim".to_owned()));
    assert!(report::terminal(&results).contains("1 gaps"));
    assert!(report::markdown(&results).contains("| `trim/nothing there` | pass | gap |"));
    assert!(
        report::junit(&results)
            .unwrap()
            .contains("<skipped message=\"the driver does not know the op trim\"")
    );
}

/// The program, on the reference driver with a fault.
fn judge(fault: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_echomq-judge"))
        .args(["--languages", "reference", "--reports", env!("CARGO_TARGET_TMPDIR")])
        .args(arguments)
        .env("ECHOMQ_FAULT", fault)
        .output()
        .unwrap()
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn the_program_counts_and_ends_accordingly() {
    for (fault, arguments, code, counts) in [
        ("", &["--filter", "trim/to nothing"][..], 0, "passed=2 failed=0 skipped=0"),
        ("never_exact", &["--filter", "trim/exact length"], 1, "passed=1 failed=1 skipped=0"),
        ("unknown_op", &["--filter", "trim/to nothing"], 1, "passed=1 failed=1 skipped=0"),
        ("unknown_op", &["--filter", "trim/to nothing", "--allow-gaps"], 0, "passed=1 failed=0 skipped=1"),
    ] {
        let output = judge(fault, arguments);
        assert_eq!(last_line(&output), format!("counts conformance {counts}"), "{output:?}");
        assert_eq!(output.status.code(), Some(code));
    }
}

#[test]
fn the_program_says_what_it_cannot_do() {
    for arguments in
        [&["--filter", "no such case"][..], &["--languages", "cobol"], &["--server", "memcached"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_echomq-judge")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
    let listed = Command::new(env!("CARGO_BIN_EXE_echomq-judge")).arg("--list").output().unwrap();
    assert!(
        String::from_utf8_lossy(&listed.stdout).contains("append/order-and-duplicates\n  No face may sort")
    );
}
