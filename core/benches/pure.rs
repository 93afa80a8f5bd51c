//! The parts of an append and of a read that do no I/O.
//!
//! The lower layers of the core stand alone, so they are compiled into this benchmark as they are: it reaches what the
//! crate keeps to itself.

// Each layer has more than what is measured here.
#![allow(dead_code, unused_imports)]

#[path = "../src/clock.rs"]
mod clock;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/id/mod.rs"]
mod id;
#[path = "../src/keyspace.rs"]
mod keyspace;
#[path = "../src/operation/mod.rs"]
mod operation;
#[path = "../src/process.rs"]
mod process;
#[path = "../src/record/mod.rs"]
mod record;
#[path = "../src/script/mod.rs"]
mod script;

use clock::Clock;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use error::Result;
use id::branded::EventId;
use id::entry_id::EntryId;
use id::mint::Mint;
use operation::minter::Minter;
use record::decoder::Decoder;
use record::packed::Packed;
use record::{Fields, Record, reply};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const KEY: &str = "emq:{codemojex}:stream:events";
const ID: &str = "EVT0NgWEfAER90";
const PAGE: u64 = 1_000;
const BOUND: Duration = Duration::from_secs(60);

fn payload() -> String {
    "0123456789".repeat(12)
}

/// What a mint cannot do without: reading the clock and one compare-and-swap.
fn clock_and_swap(cell: &AtomicU64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let last = cell.load(Ordering::Relaxed);
    let next = now.max(last + 1);
    let _ = black_box(cell.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed));
    next
}

fn mint(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mint");
    let cell = AtomicU64::new(0);
    group.bench_function("clock and one compare-and-swap", |bencher| bencher.iter(|| clock_and_swap(&cell)));
    let clock = Clock::system();
    if let (Ok(mint), Ok(other)) = (Mint::new(1), Mint::new(2)) {
        group.bench_function("mint", |bencher| bencher.iter(|| mint.mint(&clock)));
        let minter = Minter::leased(clock, Some(other), Some(BOUND));
        minter.permit(None, None, None);
        minter.set_server_time(clock.now(), Instant::now());
        group.bench_function("mint of a client, bounded by the server's clock", |bencher| {
            bencher.iter(|| minter.mint());
        });
    }
    group.finish();
}

fn ids(criterion: &mut Criterion) {
    let Ok(id) = EventId::parse(ID) else { return };
    let (snowflake, entry_id) = (id.snowflake(), EntryId::from(id).to_string());
    let mut group = criterion.benchmark_group("id");
    group.bench_function("snowflake to branded id", |bencher| {
        bencher.iter(|| EventId::new(black_box(snowflake)))
    });
    group.bench_function("branded id to snowflake", |bencher| {
        bencher.iter(|| EventId::parse(black_box(ID)).map(|id| id.snowflake()));
    });
    group.bench_function("branded id to text of entry id", |bencher| {
        bencher.iter(|| EntryId::from(black_box(id)).to_string());
    });
    group.bench_function("text of entry id to branded id", |bencher| {
        bencher.iter(|| EntryId::parse(black_box(&entry_id)).and_then(EventId::try_from));
    });
    group.finish();
}

fn appends(criterion: &mut Criterion) {
    let Ok(id) = EventId::parse(ID) else { return };
    let payload = payload();
    let pairs = [("kind", "guessed"), ("player", "PLR0NgWEfAEJfs"), ("payload", &*payload)];
    let fields = Fields::from(pairs);
    let mut group = criterion.benchmark_group("append");
    group.bench_function("three pairs to fields", |bencher| bencher.iter(|| Fields::from(black_box(pairs))));
    let mut commands = Packed::default();
    group.bench_function("fields to command", |bencher| {
        bencher.iter(|| {
            commands.clear(usize::MAX);
            fields.append_command(black_box(KEY), id, &mut commands);
            commands.bytes().len()
        });
    });
    group.finish();
}

/// The bytes of the server's reply to `XRANGE` of a page.
fn page() -> Vec<u8> {
    let payload = payload();
    let mut reply = format!("*{PAGE}\r\n");
    for seq in 0..PAGE {
        let entry_id = EntryId::new(1_780_512_970_164, seq);
        let id = EventId::try_from(entry_id).map(String::from).unwrap_or_default();
        let entry_id = entry_id.to_string();
        reply.push_str(&format!("*2\r\n${}\r\n{entry_id}\r\n*8\r\n", entry_id.len()));
        for part in ["id", &id, "kind", "guessed", "player", "PLR0NgWEfAEJfs", "payload", &payload] {
            reply.push_str(&format!("${}\r\n{part}\r\n", part.len()));
        }
    }
    reply.into_bytes()
}

fn value(decoder: &mut Decoder, mut reply: &[u8]) -> redis::Value {
    loop {
        let room = decoder.room();
        let part = room.len().min(reply.len());
        room[..part].copy_from_slice(&reply[..part]);
        decoder.filled(part);
        reply = &reply[part..];
        match decoder.next() {
            Ok(Some(value)) => return value,
            Ok(None) if !reply.is_empty() => {}
            _ => return redis::Value::Nil,
        }
    }
}

fn records(decoder: &mut Decoder, reply: &[u8]) -> Result<Vec<Record>> {
    reply::records(value(decoder, reply))
}

fn reads(criterion: &mut Criterion) {
    let reply = page();
    let mut group = criterion.benchmark_group("a page of 1 000 records");
    group.throughput(Throughput::Elements(PAGE));
    group.bench_function("bytes to values, by redis-rs", |bencher| {
        bencher.iter(|| redis::parse_redis_value(black_box(&reply)));
    });
    let mut decoder = Decoder::new();
    group
        .bench_function("bytes to values", |bencher| bencher.iter(|| value(&mut decoder, black_box(&reply))));
    group.bench_function("bytes to records", |bencher| {
        bencher.iter(|| records(&mut decoder, black_box(&reply)))
    });
    group.finish();
}

criterion_group!(benches, mint, ids, appends, reads);
criterion_main!(benches);
