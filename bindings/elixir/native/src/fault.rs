//! Panics on demand, in every place where one could arise. For the tests, which see that none of them harms the VM.
#![allow(clippy::panic, reason = "panicking is what this module is for")]

use crate::error::call;
use crate::reply::answer_later;
use crate::term::IntoTerm;
use rustler::{Decoder, Encoder, Env, NifResult, Resource, ResourceArc, Term};

/// Panics wherever it is used: when it is decoded, encoded, sent or dropped.
struct Bomb;

impl Decoder<'_> for Bomb {
    fn decode(_: Term<'_>) -> NifResult<Self> {
        panic!("a panic that a test asked for, while decoding")
    }
}

impl Encoder for Bomb {
    fn encode<'a>(&self, _: Env<'a>) -> Term<'a> {
        panic!("a panic that a test asked for, while encoding")
    }
}

impl IntoTerm for Bomb {
    fn into_term(self, _: Env<'_>) -> Term<'_> {
        panic!("a panic that a test asked for, while encoding a message")
    }
}

struct DroppedBomb;

impl Drop for DroppedBomb {
    fn drop(&mut self) {
        panic!("a panic that a test asked for, while dropping a resource")
    }
}

#[rustler::resource_impl]
impl Resource for DroppedBomb {}

#[rustler::nif]
fn panic_in_call(_argument: Term<'_>) -> bool {
    panic!("a panic that a test asked for, in a call")
}

#[rustler::nif]
fn panic_in_decode(_argument: Bomb) -> bool {
    true
}

#[rustler::nif]
fn panic_in_encode() -> Bomb {
    Bomb
}

#[rustler::nif]
fn panic_in_drop<'a>(env: Env<'a>) -> Term<'a> {
    ResourceArc::new(DroppedBomb).encode(env)
}

#[rustler::nif]
fn panic_in_task<'a>(env: Env<'a>, tag: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || answer_later(env, tag, panicking()))
}

async fn panicking() -> Bomb {
    panic!("a panic that a test asked for, in a task")
}

#[rustler::nif]
fn panic_in_message<'a>(env: Env<'a>, tag: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || answer_later(env, tag, async { Bomb }))
}
