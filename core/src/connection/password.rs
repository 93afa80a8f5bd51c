//! A password: a text, or a function that is asked for one each time a connection is opened.

use crate::error::{Code, Error, Result, panic_text};
use futures_util::FutureExt;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

type Asking = Pin<Box<dyn Future<Output = Result<String>> + Send>>;

/// What a client logs in with.
#[derive(Clone)]
pub(crate) enum Password {
    Text(String),
    Asked(Arc<dyn Fn() -> Asking + Send + Sync>),
}

impl Password {
    /// A function that is asked each time. Where it fails or panics, there is no connection: `auth`.
    pub(crate) fn asked<F, A, E>(ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<String, E>> + Send + 'static,
        E: fmt::Display,
    {
        let ask = Arc::new(ask);
        Self::Asked(Arc::new(move || {
            let ask = ask.clone();
            // The call itself stands inside the future, so that its panic is caught as well.
            Box::pin(AssertUnwindSafe(async move { ask().await }).catch_unwind().map(|answer| match answer {
                Ok(Ok(password)) => Ok(password),
                Ok(Err(error)) => Err(no_password(format!("failed: {error}"))),
                Err(panic) => Err(no_password(format!("panicked: {}", panic_text(&*panic)))),
            }))
        }))
    }

    /// The password for one connection.
    pub(crate) async fn get(&self) -> Result<String> {
        match self {
            Self::Text(password) => Ok(password.clone()),
            Self::Asked(ask) => ask().await,
        }
    }
}

fn no_password(what: String) -> Error {
    Error::new(Code::Auth, format!("the function that is asked for the password {what}")).about("password")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn it_is_asked_each_time() {
        let asked = AtomicU32::new(0);
        let password = Password::asked(move || {
            let time = asked.fetch_add(1, Ordering::Relaxed);
            async move { Ok::<_, Error>(format!("password {time}")) }
        });
        assert_eq!(password.get().await.unwrap(), "password 0");
        assert_eq!(password.clone().get().await.unwrap(), "password 1");
    }

    #[tokio::test]
    async fn a_function_that_fails_or_panics_is_an_error() {
        let fails = Password::asked(|| async { Err::<String, _>("the vault is sealed") });
        let error = fails.get().await.unwrap_err();
        assert_eq!(error.code(), Code::Auth);
        assert!(error.message().contains("the vault is sealed"), "{error}");

        let panics = Password::asked(|| -> std::future::Ready<Result<String>> { panic!("no vault") });
        let error = panics.get().await.unwrap_err();
        assert_eq!(error.code(), Code::Auth);
        assert!(error.message().contains("no vault"), "{error}");
    }
}
