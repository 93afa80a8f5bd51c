//! Where the server is, and who asks: what a URL says.

use crate::error::{Code, Error, Result};
use percent_encoding::percent_decode_str;
use std::fmt;
use std::path::PathBuf;
use url::Url;

const PORT: u16 = 6379;

/// The address of a server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What a URL says.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) endpoint: Endpoint,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<u32>,
    /// Further options by name.
    pub(crate) options: Vec<(String, String)>,
}

impl Location {
    /// Reads a URL. Fails with `invalid_option`, whose text shows no part of the URL that could hold a secret.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let url = Url::parse(text).map_err(|error| refusal(format!("it cannot be read: {error}")))?;
        if url.fragment().is_some() {
            return Err(refusal("it has a fragment, which means nothing here"));
        }
        let mut location = match url.scheme() {
            "redis" | "valkey" => Self::tcp(&url, false)?,
            "rediss" | "valkeys" => Self::tcp(&url, true)?,
            "unix" => Self::unix(&url)?,
            other => {
                return Err(refusal(format!(
                    "its scheme `{other}` is none of redis, rediss, valkey, valkeys and unix"
                )));
            }
        };
        for (name, value) in url.query_pairs() {
            match (&*name, &location.endpoint) {
                ("db", Endpoint::Unix(_)) => location.database = Some(database(&value)?),
                ("user", Endpoint::Unix(_)) => location.username = Some(value.into_owned()),
                ("pass", Endpoint::Unix(_)) => location.password = Some(value.into_owned()),
                _ => location.options.push((name.into_owned(), value.into_owned())),
            }
        }
        Ok(location)
    }

    fn tcp(url: &Url, tls: bool) -> Result<Self> {
        let host = match url.host() {
            Some(url::Host::Ipv6(address)) => address.to_string(),
            Some(host) => decoded(&host.to_string())?,
            None => return Err(refusal("it names no host")),
        };
        let database = match url.path().trim_start_matches('/') {
            "" => None,
            path => Some(database(path)?),
        };
        Ok(Self {
            endpoint: Endpoint::Tcp { host, port: url.port().unwrap_or(PORT), tls },
            username: Some(url.username()).filter(|name| !name.is_empty()).map(decoded).transpose()?,
            password: url.password().map(decoded).transpose()?,
            database,
            options: Vec::new(),
        })
    }

    fn unix(url: &Url) -> Result<Self> {
        if url.has_host() && url.host_str().is_some_and(|host| !host.is_empty()) {
            return Err(refusal("a unix URL has three slashes before its path: unix:///path/to/socket"));
        }
        let path = decoded(url.path())?;
        if path.len() < 2 {
            return Err(refusal("it names no path of a socket"));
        }
        Ok(Self {
            endpoint: Endpoint::Unix(path.into()),
            username: None,
            password: None,
            database: None,
            options: Vec::new(),
        })
    }
}

fn decoded(text: &str) -> Result<String> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(refusal("a part of it is no UTF-8")),
    }
}

fn database(text: &str) -> Result<u32> {
    text.parse().map_err(|_| refusal("its database is no number"))
}

fn refusal(why: impl fmt::Display) -> Error {
    Error::new(Code::InvalidOption, format!("the URL cannot be used: {why}")).about("url")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, tls: bool) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port, tls }
    }

    #[test]
    fn every_form_of_a_url() {
        for (url, endpoint, user, password, database) in [
            ("redis://h", tcp("h", 6379, false), None, None, None),
            ("redis://h:7/3", tcp("h", 7, false), None, None, Some(3)),
            ("valkey://u:p%40ss@h:7/", tcp("h", 7, false), Some("u"), Some("p@ss"), None),
            ("rediss://:p@h", tcp("h", 6379, true), None, Some("p"), None),
            ("valkeys://[::1]:7", tcp("::1", 7, true), None, None, None),
            ("redis://127.0.0.1", tcp("127.0.0.1", 6379, false), None, None, None),
            ("unix:///run/a%20b.sock", Endpoint::Unix("/run/a b.sock".into()), None, None, None),
            ("unix:///s?db=2&user=u&pass=p", Endpoint::Unix("/s".into()), Some("u"), Some("p"), Some(2)),
        ] {
            let location = Location::parse(url).unwrap();
            assert_eq!(location.endpoint.to_string(), endpoint.to_string());
            assert!(location.endpoint == endpoint, "{url}");
            assert_eq!(location.username.as_deref(), user, "{url}");
            assert_eq!(location.password.as_deref(), password, "{url}");
            assert_eq!(location.database, database, "{url}");
        }
        let location = Location::parse("redis://h?protocol=2&node_id=7").unwrap();
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(location.options, [named("protocol", "2"), named("node_id", "7")]);
    }

    #[test]
    fn what_is_no_url_is_refused_without_its_secret() {
        for url in [
            "",
            "h:6379",
            "redis://",
            "redis:///1",
            "http://secret@h",
            "redis://u:secret@h/x",
            "redis://u:secret@h/-1",
            "redis://u:secret@h:99999",
            "unix://secret/s",
            "unix://",
            "unix:///",
            "redis://u:secret@h/1#insecure",
            "redis://u:secret%FF@h",
        ] {
            let error = Location::parse(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert_eq!(error.code(), Code::InvalidOption, "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
