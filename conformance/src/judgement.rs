//! The verdict on a case: what came of it against what had to.

use crate::case::{Case, ExpectedReply, ExpectedStream, Length};
use crate::generated::unhex;
use crate::item::{self, Names};
use crate::observation::Observation;
use crate::protocol::{Reply, Token, shorten};
use std::fmt::Write;

/// What the judge says of one case in one language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is as it has to be.
    Pass,
    /// Something is not; the sentence says what.
    Fail(String),
    /// The driver does not know this op.
    Gap(String),
}

/// Compares a case's replies and what the plain client saw with what had to come.
pub fn judge(case: &Case, language: &str, replies: &[Reply], seen: &Observation) -> Verdict {
    let mut names = Names::new(language);
    for (at, reply) in replies.iter().enumerate() {
        if *reply == Reply::Unsupported {
            return Verdict::Gap(operation_name(case, at));
        }
        if let Err(fault) = compare_reply(&case.expect.replies[at], reply, &mut names) {
            let op = operation_name(case, at);
            return Verdict::Fail(format!("reply {} ({op}): {fault}", at + 1));
        }
    }
    match compare_server(case, seen, &mut names) {
        Ok(()) => Verdict::Pass,
        Err(fault) => Verdict::Fail(fault),
    }
}

fn operation_name(case: &Case, step: usize) -> String {
    crate::operation::named(&case.steps[step]).map(|(op, _)| op.to_owned()).unwrap_or_default()
}

fn compare_reply(expected: &ExpectedReply, reply: &Reply, names: &mut Names) -> Result<(), String> {
    match (expected, reply) {
        (ExpectedReply::Values(values), Reply::Ok(seen)) => names.compare(&item::expand(values)?, seen),
        (ExpectedReply::Err(expected), Reply::Err { code, text }) if *code == expected.err => {
            let spoken = text.to_lowercase();
            match expected.text.iter().find(|part| !spoken.contains(&part.to_lowercase())) {
                None if text.is_empty() => Err(format!("{code} without a sentence")),
                None => Ok(()),
                Some(part) => Err(format!("{code} does not name {part:?}: {}", shorten(text))),
            }
        }
        (ExpectedReply::Refused(expected), Reply::Err { code, .. }) if *code == expected.refused => Ok(()),
        (ExpectedReply::Refused(expected), Reply::Ok(groups)) => {
            let all_refused = groups.split(|token| *token == Token::Bar).all(|group| {
                matches!(group, [word, code, _] if *word == Token::text("err") && *code == Token::text(&expected.refused))
            });
            if all_refused {
                Ok(())
            } else {
                Err(format!("{groups:?} instead of {} alone", expected.refused))
            }
        }
        (ExpectedReply::Values(_), other) => Err(format!("{} instead of values", spoken(other))),
        (ExpectedReply::Err(expected), other) => {
            Err(format!("{} instead of {}", spoken(other), expected.err))
        }
        (ExpectedReply::Refused(expected), other) => {
            Err(format!("{} instead of {}", spoken(other), expected.refused))
        }
    }
}

fn spoken(reply: &Reply) -> String {
    match reply {
        Reply::Ok(values) => shorten(&format!("ok {values:?}")),
        Reply::Err { code, text } => format!("{code} ({})", shorten(text)),
        Reply::Unsupported => "unsupported".to_owned(),
    }
}

fn compare_server(case: &Case, seen: &Observation, names: &mut Names) -> Result<(), String> {
    if let Some(keys) = &case.expect.keys
        && *keys != seen.keys
    {
        return Err(format!("the server holds the keys {:?}, expected {keys:?}", seen.keys));
    }
    case.expect.stream.as_ref().map_or(Ok(()), |stream| compare_stream(stream, seen, names))
}

fn compare_stream(stream: &ExpectedStream, seen: &Observation, names: &mut Names) -> Result<(), String> {
    let count = seen.entries.len();
    if let Some(records) = &stream.records {
        for (at, (expected, entry)) in records.iter().zip(&seen.entries).enumerate() {
            names
                .compare(&item::expand(expected)?, entry)
                .map_err(|fault| format!("entry {} of the stream: {fault}", at + 1))?;
        }
        if records.len() != count {
            return Err(format!("the stream holds {count} entries, expected {}", records.len()));
        }
    }
    match &stream.length {
        Some(Length::Exactly(length)) if count as u64 != *length => {
            return Err(format!("the stream holds {count} entries, expected {length}"));
        }
        Some(Length::Left { of, removed, at_least, at_most }) => {
            let gone = names.number(removed).ok_or_else(|| format!("no reply gave the number {removed}"))?;
            let (left, most) = (count as u64, at_most.unwrap_or(*of));
            if !(*at_least..=most).contains(&left) || left + gone != *of {
                return Err(format!(
                    "the stream holds {left} entries after {gone} of {of} went, expected {at_least} to {most}"
                ));
            }
        }
        Some(Length::Exactly(_)) | None => {}
    }
    stream.commands.as_ref().map_or(Ok(()), |expected| compare_commands(expected, seen))
}

fn compare_commands(expected: &[String], seen: &Observation) -> Result<(), String> {
    if expected.len() != seen.commands.len() {
        return Err(format!("{} XADD were sent, expected {}", seen.commands.len(), expected.len()));
    }
    for (at, (expected, sent)) in expected.iter().zip(&seen.commands).enumerate() {
        same_bytes(&format!("XADD {}", at + 1), &unhex(expected)?, &sent.bytes)?;
    }
    Ok(())
}

/// Compares what two languages left and sent, byte for byte.
///
/// # Errors
///
/// Says where they first differ.
pub fn same_as(other: &str, expected: &Observation, seen: &Observation) -> Result<(), String> {
    let against = |what: &str| format!("{what}, against {other}");
    same_bytes(&against("the reply to XRANGE"), &expected.range, &seen.range)?;
    match (&expected.dump, &seen.dump) {
        (Some(expected), Some(seen)) => same_bytes(&against("DUMP"), expected, seen)?,
        (None, None) => {}
        _ => return Err(against("the key exists in one of two languages")),
    }
    if expected.commands.len() != seen.commands.len() {
        return Err(against(&format!("{} XADD instead of {}", seen.commands.len(), expected.commands.len())));
    }
    for (at, (expected, seen)) in expected.commands.iter().zip(&seen.commands).enumerate() {
        same_bytes(&against(&format!("XADD {}", at + 1)), &expected.bytes, &seen.bytes)?;
    }
    Ok(())
}

fn same_bytes(what: &str, expected: &[u8], seen: &[u8]) -> Result<(), String> {
    if expected == seen {
        return Ok(());
    }
    const SHOWN: usize = 24;
    let at = expected.iter().zip(seen).take_while(|(a, b)| a == b).count();
    let part = |bytes: &[u8]| {
        let from = at.saturating_sub(8).min(bytes.len());
        let mut text = String::new();
        for byte in &bytes[from..bytes.len().min(from + SHOWN)] {
            // Writing into a string cannot fail.
            let _ = write!(text, "{}", byte.escape_ascii());
        }
        text
    };
    Err(format!(
        "{what}: byte {} of {} differs: …{}… instead of …{}…",
        at + 1,
        seen.len(),
        part(seen),
        part(expected)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(replies: &str, more: &str) -> Case {
        let json = format!(
            r#"{{"name":"a/b","why":"c","do":[["append_batch","q","s"]],"expect":{{"replies":[{replies}]{more}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn verdict(case: &Case, reply: &str, seen: &Observation) -> Verdict {
        judge(case, "rust", &[Reply::parse(1, &format!("1\t{reply}")).unwrap()], seen)
    }

    fn passes(case: &Case, reply: &str) -> bool {
        verdict(case, reply, &Observation::default()) == Verdict::Pass
    }

    #[test]
    fn an_error_needs_its_code_and_names_what_it_has_to() {
        let case = case(r#"{"err":"nonmonotonic","text":["5-0"]}"#, "");
        assert!(passes(&case, "err\tnonmonotonic\ttop%20is%205-0"));
        assert!(!passes(&case, "err\tnonmonotonic\ttop%20is%206-0"));
        assert!(!passes(&case, "err\tserver\ttop%20is%205-0"));
        assert!(!passes(&case, "ok"));
    }

    #[test]
    fn a_refused_batch_takes_both_forms() {
        let case = case(r#"{"refused":"kind"}"#, "");
        assert!(passes(&case, "err\tkind\tx"));
        assert!(passes(&case, "ok\terr\tkind\tx\t|\terr\tkind\tx"));
        assert!(!passes(&case, "ok\terr\tkind\tx\t|\tok\tEVT00000000001"));
        assert!(!passes(&case, "ok"));
        assert!(!passes(&case, "err\tserver\tx"));
    }

    #[test]
    fn an_unknown_op_is_a_gap() {
        let case = case("[]", "");
        let seen = Observation::default();
        assert_eq!(verdict(&case, "unsupported", &seen), Verdict::Gap("append_batch".to_owned()));
    }

    #[test]
    fn keys_entries_and_lengths_are_compared() {
        let case = case(
            r#"[{"number":"gone"}]"#,
            r#","keys":["k"],"stream":{"key":"k","records":[["1-0","a","b"]],"length":{"of":3,"removed":"gone","at_least":1}}"#,
        );
        let entry = ["1-0", "a", "b"].map(Token::text).to_vec();
        let good =
            Observation { keys: vec!["k".into()], entries: vec![entry.clone()], ..Observation::default() };
        assert_eq!(verdict(&case, "ok\t2", &good), Verdict::Pass);
        let others = [
            ("ok\t1", good.clone()),
            ("ok\t2", Observation { keys: vec![], ..good.clone() }),
            ("ok\t2", Observation { entries: vec![], ..good.clone() }),
            ("ok\t2", Observation { entries: vec![entry.clone(), entry], ..good }),
        ];
        for (reply, seen) in others {
            assert!(matches!(verdict(&case, reply, &seen), Verdict::Fail(_)));
        }
    }

    #[test]
    fn the_first_differing_byte_is_named() {
        let fault = same_bytes("DUMP", b"abc", b"abd").unwrap_err();
        assert!(fault.contains("byte 3 of 3"), "{fault}");
        assert!(same_bytes("DUMP", b"abc", b"ab").is_err());
        same_bytes("DUMP", b"abc", b"abc").unwrap();
    }
}
