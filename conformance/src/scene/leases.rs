//! Node leases: what a driver answers of them, and what the keys say.

use crate::protocol::Token;
use echomq_tests::Plain;
use std::collections::BTreeSet;

/// The longest time that a lease is held for without being renewed, in milliseconds.
const LEASE_MS: i64 = 30_000;

/// A lease as the keys have it.
type Lease = (u64, String);

/// Looks whether exactly these nodes are leased, each once, by owners that the keys describe, and whether the answer of a driver
/// names the same.
pub(super) fn judge(plain: &mut Plain, answer: &[Token], expected: &[u64]) -> Result<(), String> {
    let held = held(plain)?;
    let nodes: Vec<u64> = held.iter().map(|(node, _): &Lease| *node).collect();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    if nodes != expected {
        return Err(format!("the nodes {nodes:?} are leased, expected {expected:?}"));
    }
    let told = told(answer)?;
    let known: BTreeSet<Lease> = held.into_iter().collect();
    if told != known {
        return Err(format!("told is {told:?}, the keys hold {known:?}"));
    }
    Ok(())
}

/// The leases that have not run out, by their nodes.
fn held(plain: &mut Plain) -> Result<Vec<Lease>, String> {
    let refused = |error: redis::RedisError| error.to_string();
    let read = |plain: &mut Plain, words: &[&str]| -> Result<Vec<String>, String> {
        redis::from_redis_value(plain.try_command(words).map_err(refused)?).map_err(|error| error.to_string())
    };
    let time: Vec<i64> = read(plain, &["TIME"])?.iter().filter_map(|part| part.parse().ok()).collect();
    let [seconds, microseconds] = time[..] else { return Err("the server tells no time".to_owned()) };
    let now = seconds * 1000 + microseconds / 1000;
    let members = read(plain, &["ZRANGE", "{emq}:nodes", "0", "-1", "WITHSCORES"])?;
    let mut held = Vec::new();
    for pair in members.chunks(2) {
        let [member, deadline] = pair else { return Err(format!("no lease: {pair:?}")) };
        let lease = member
            .split_once(':')
            .and_then(|(node, owner)| Some((node.parse::<u64>().ok()?, owner.to_owned())));
        let (Some((node, owner)), Ok(deadline)) = (lease, deadline.parse::<f64>()) else {
            return Err(format!("no lease: {pair:?}"));
        };
        let left = deadline as i64 - now;
        if left <= 0 {
            continue;
        }
        if left > LEASE_MS {
            return Err(format!("the lease {member} is held for {left} ms"));
        }
        let key = format!("{{emq}}:nodes:{owner}");
        let fields = read(plain, &["HGETALL", &key])?;
        if fields.is_empty() {
            return Err(format!("nothing says who {owner} is, who holds node {node}"));
        }
        let living: i64 = redis::from_redis_value(plain.try_command(["PTTL", &key]).map_err(refused)?)
            .map_err(|error| error.to_string())?;
        if !(1..=LEASE_MS).contains(&living) {
            return Err(format!("{key} has a time to live of {living} ms"));
        }
        let floor = read(plain, &["HMGET", "{emq}:nodes:floor", &node.to_string()]).unwrap_or_default();
        match floor.first().and_then(|floor| floor.parse::<i64>().ok()) {
            Some(floor) if floor >= now => {}
            _ => {
                return Err(format!(
                    "the floor of node {node} is {floor:?}, and its holder may mint at {now}"
                ));
            }
        }
        held.push((node, owner));
    }
    held.sort();
    Ok(held)
}

/// The leases of a driver's answer: a group each, of node, owner and milliseconds left.
fn told(answer: &[Token]) -> Result<BTreeSet<Lease>, String> {
    if answer.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut told = BTreeSet::new();
    for group in answer.split(|token| *token == Token::Bar) {
        let words: Vec<String> = group.iter().map(Token::encode).collect();
        let lease = match words.as_slice() {
            [node, owner, left] => match (node.parse::<u64>(), left.parse::<i64>()) {
                (Ok(node), Ok(left)) if (0..=LEASE_MS).contains(&left) => Some((node, owner.clone())),
                _ => None,
            },
            _ => None,
        };
        let lease = lease.ok_or_else(|| format!("told of {words:?}, which is no node, owner and ms left"))?;
        if !told.insert(lease) {
            return Err(format!("told of {words:?} twice"));
        }
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use echomq_tests::{Kind, Server};

    fn answer(words: &[&str]) -> Vec<Token> {
        words.iter().map(|word| if *word == "|" { Token::Bar } else { Token::text(word) }).collect()
    }

    fn lease(plain: &mut Plain, node: u64, owner: &str) {
        let script = "local time = redis.call('TIME') \
                      local now = time[1] * 1000 + math.floor(time[2] / 1000) \
                      redis.call('ZADD', KEYS[1], now + 20000, ARGV[1] .. ':' .. ARGV[2]) \
                      redis.call('HSET', KEYS[2], ARGV[1], now + 20000) \
                      redis.call('HSET', KEYS[3], 'host', 'h') \
                      redis.call('PEXPIRE', KEYS[3], 20000)";
        let owned = format!("{{emq}}:nodes:{owner}");
        let node = node.to_string();
        plain.command(["EVAL", script, "3", "{emq}:nodes", "{emq}:nodes:floor", &owned, &node, owner]);
    }

    #[test]
    fn leases_are_compared_with_the_keys() {
        for kind in Kind::ALL {
            let server = Server::start(kind);
            let mut plain = Plain::connect(&server);
            judge(&mut plain, &[], &[]).unwrap();
            lease(&mut plain, 1, "b");
            lease(&mut plain, 0, "a");
            let right = answer(&["0", "a", "19999", "|", "1", "b", "1"]);
            judge(&mut plain, &right, &[1, 0]).unwrap();
            for (wrong, saying) in [
                (answer(&["0", "a", "19999"]), "told is"),
                (answer(&["0", "a", "19999", "|", "1", "c", "1"]), "told is"),
                (answer(&["0", "a", "30001", "|", "1", "b", "1"]), "no node, owner and ms left"),
                (answer(&["0", "a", "1", "|", "0", "a", "1"]), "twice"),
                (answer(&["0", "a"]), "no node, owner and ms left"),
            ] {
                let fault = judge(&mut plain, &wrong, &[0, 1]).unwrap_err();
                assert!(fault.contains(saying), "{saying}: {fault}");
            }
            assert!(judge(&mut plain, &right, &[0]).unwrap_err().contains("are leased"));
            plain.command(["PERSIST", "{emq}:nodes:a"]);
            assert!(judge(&mut plain, &right, &[0, 1]).unwrap_err().contains("time to live"));
            plain.command(["DEL", "{emq}:nodes:a"]);
            assert!(judge(&mut plain, &right, &[0, 1]).unwrap_err().contains("nothing says who"));
            lease(&mut plain, 0, "a");
            plain.command(["HDEL", "{emq}:nodes:floor", "1"]);
            assert!(judge(&mut plain, &right, &[0, 1]).unwrap_err().contains("the floor of node 1"));
            // Two of one node, and one that has run out.
            lease(&mut plain, 1, "c");
            assert!(judge(&mut plain, &right, &[0, 1]).unwrap_err().contains("[0, 1, 1]"));
            plain.command(["ZADD", "{emq}:nodes", "5", "1:c"]);
            lease(&mut plain, 1, "b");
            judge(&mut plain, &right, &[0, 1]).unwrap();
        }
    }
}
