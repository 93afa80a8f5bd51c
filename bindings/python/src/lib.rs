//! The native module `echomq._echomq`: converts arguments, calls the core once, converts the answer.
//!
//! `echomq.Client` waits on the thread of its caller (`wait.rs`); `echomq.aio.Client` answers through a queue of each
//! event loop (`aio/queue.rs`). No rule of the bus stands here.

mod aio;
mod arguments;
mod cancel;
mod client;
mod consumer;
mod delivery;
mod error;
mod event;
mod events;
mod group;
mod host;
mod id;
mod instant;
mod lease;
mod listener;
mod notice;
mod options;
mod panic;
mod password;
mod reader;
mod record;
mod reply;
mod status;
mod stream;
mod tail;
mod text;
mod wait;

use pyo3::prelude::*;

#[pymodule]
fn _echomq(module: &Bound<'_, PyModule>) -> PyResult<()> {
    host::refuse_subinterpreter(module.py())?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("CORE_VERSION", echomq::VERSION)?;
    module.add("VERSION_KEY", echomq::VERSION_KEY)?;
    module.add("EPOCH_MS", echomq::EPOCH_MS)?;
    module.add("MAX_NODE", echomq::MAX_NODE)?;
    module.add("OPTION_NAMES", echomq::Options::NAMES)?;
    module.add("CONSUMER_OPTION_NAMES", echomq::ConsumerOptions::NAMES)?;
    module
        .add("NOTICE_KINDS", echomq::NoticeKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>())?;
    module.add("CODES", echomq::Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>())?;
    let retryable = echomq::Code::ALL.iter().filter(|code| code.is_retryable());
    module.add("RETRYABLE_CODES", retryable.map(|code| code.as_str()).collect::<Vec<_>>())?;
    module.add_class::<client::Client>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<reader::Reader>()?;
    module.add_class::<consumer::Consumer>()?;
    module.add_class::<delivery::Delivery>()?;
    module.add_class::<notice::Notice>()?;
    module.add_class::<notice::Notices>()?;
    module.add_class::<tail::Tail>()?;
    module.add_class::<tail::Gap>()?;
    module.add_class::<events::Events>()?;
    module.add_class::<listener::Listener>()?;
    module.add_class::<listener::ListenerStatus>()?;
    module.add_class::<listener::Subscriber>()?;
    module.add_class::<event::Event>()?;
    module.add_class::<event::EventGap>()?;
    module.add_class::<cancel::CancelToken>()?;
    module.add_class::<group::GroupInfo>()?;
    module.add_class::<group::ConsumerInfo>()?;
    module.add_class::<lease::NodeLease>()?;
    module.add_class::<record::Record>()?;
    module.add_class::<status::Status>()?;
    module.add_class::<id::Id>()?;
    module.add_class::<id::Keyspace>()?;
    module.add_function(wrap_pyfunction!(id::slot, module)?)?;
    module.add("AioClient", module.py().get_type::<aio::client::Client>())?;
    module.add("AioStream", module.py().get_type::<aio::stream::Stream>())?;
    module.add("AioReader", module.py().get_type::<aio::reader::Reader>())?;
    module.add("AioConsumer", module.py().get_type::<aio::consumer::Consumer>())?;
    module.add("AioNotices", module.py().get_type::<aio::notices::Notices>())?;
    module.add("AioTail", module.py().get_type::<aio::tail::Tail>())?;
    module.add("AioEvents", module.py().get_type::<aio::events::Events>())?;
    module.add("AioListener", module.py().get_type::<aio::listener::Listener>())?;
    module.add("AioSubscriber", module.py().get_type::<aio::listener::Subscriber>())?;
    module.add_function(wrap_pyfunction!(error::made_once, module)?)?;
    module.add_function(wrap_pyfunction!(panic::panic_for_tests, module)?)?;
    module.add_function(wrap_pyfunction!(panic::panic_in_runtime_for_tests, module)?)?;
    Ok(())
}
