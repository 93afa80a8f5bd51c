//! Processes that fork while they have clients.

use crate::bus::Bus;
use echomq::EventId;
use echomq_tests::{Kind, Language, Program};
use std::collections::BTreeSet;

const CALLS: [&str; 4] = ["mint", "append", "mint-task", "append-task"];

/// A child can do nothing with its parent's clients, whether it keeps what it inherited or not; one of its own has a node of
/// its own, and the parent goes on with its own.
#[test]
fn a_forked_child_has_clients_and_nodes_of_its_own() {
    let mut bus = Bus::start(Kind::Valkey);
    let url = bus.server.url();
    let mut forker = Program::start(Language::Rust, "forker", bus.folder.path(), &[("url", &url)]);
    forker.wait_for_success();
    let lines: Vec<Vec<String>> =
        forker.lines().iter().map(|line| line.split(' ').map(String::from).collect()).collect();
    let answers = |who: &str| -> Vec<[String; 2]> {
        lines.iter().filter(|line| line[0] == who).map(|line| [line[1].clone(), line[2].clone()]).collect()
    };
    for child in ["child", "daemon"] {
        let refused = ["node_lease_lost", "closed", "node_lease_lost", "closed"];
        let refused: Vec<[&str; 2]> = CALLS.into_iter().zip(refused).map(Into::into).collect();
        assert_eq!(answers(child), refused, "the {child} with its parent's clients");
    }

    let ids = |who: &str| -> Vec<EventId> {
        answers(who)
            .into_iter()
            .map(|[what, id]| id.parse().unwrap_or_else(|_| panic!("{who} {what}: {id}")))
            .collect()
    };
    let nodes = |ids: &[EventId]| -> BTreeSet<u16> { ids.iter().map(|id| id.snowflake().node()).collect() };
    let parent = ids("parent");
    assert_eq!(parent.len(), 3 * CALLS.len(), "before the first child and after each");
    assert_eq!(nodes(&parent).len(), 2, "its two clients kept their nodes");
    for own in ["child-own", "daemon-own"] {
        let own = ids(own);
        assert_eq!(own.len(), CALLS.len());
        assert!(nodes(&own).is_disjoint(&nodes(&parent)), "{own:?} {parent:?}");
    }
    let all = [parent, ids("child-own"), ids("daemon-own")].concat();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "no id twice");

    for who in ["parent", "child", "daemon", "child-own", "daemon-own"] {
        let appends =
            answers(who).into_iter().filter(|[what, id]| what.starts_with("append") && id != "closed");
        let appended: Vec<EventId> = appends.map(|[_, id]| id.parse().unwrap()).collect();
        assert_eq!(bus.ids(who), appended, "what the {who} has appended");
    }
    let leases: usize = bus.plain.query(["ZCARD", "{emq}:nodes"]);
    assert_eq!(leases, 0, "each gave back what it had");
}
