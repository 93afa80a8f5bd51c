//! TLS: whom to trust and how to introduce oneself.
//!
//! The cryptography is `ring`'s, chosen here for each connection and never installed for the whole process: another
//! library beside this one may have chosen differently.

use crate::error::{Code, Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The files of a TLS connection, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Authorities to trust instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The client's own certificate with its chain.
    pub(crate) certificate: Option<PathBuf>,
    /// The key of that certificate.
    pub(crate) key: Option<PathBuf>,
}

/// What a TLS connection needs. The files are read again where they have changed, so that certificates can be exchanged
/// while a client lives.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    pub(crate) name: ServerName<'static>,
    read: Mutex<Read>,
}

/// What was read last.
#[derive(Debug)]
struct Read {
    /// The files as they were; nothing where they are to be read again in any case.
    stamps: Option<Stamps>,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Reads the files. Fails with `tls`, naming the file, and with `invalid_option` for a certificate without a key.
    pub(crate) fn new(files: &TlsFiles, host: &str) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Error::new(Code::Tls, "the host has no name that a certificate could be for").about(host)
        })?;
        Ok(Self { files: files.clone(), name, read: Mutex::new(Read::now(files)?) })
    }

    /// What to connect with now. Fails with `tls`, naming the file, where the files have changed and cannot be used.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.stamps.as_ref() != Some(&Stamps::of(&self.files)) {
            *read = Read::now(&self.files)?;
        }
        Ok(read.config.clone())
    }

    /// Has everything be read again, the system's authorities included: with what was read last, a handshake failed.
    pub(crate) fn forget(&self) {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).stamps = None;
    }
}

impl Read {
    fn now(files: &TlsFiles) -> Result<Self> {
        // Taken first: a file that changes while it is read is read again.
        let stamps = Some(Stamps::of(files));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::new(Code::Tls, error.to_string()))?
            .with_root_certificates(roots(files.ca.as_deref())?);
        let config = match (&files.certificate, &files.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|error| refusal(certificate, &error.to_string()))?,
            _ => {
                return Err(Error::new(
                    Code::InvalidOption,
                    "a client certificate needs both `tls_certificate` and `tls_key`",
                ));
            }
        };
        Ok(Self { stamps, config: Arc::new(config) })
    }
}

/// By what a changed file is told, for each of the three.
#[derive(Debug, PartialEq, Eq)]
struct Stamps([Option<Stamp>; 3]);

#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Stamps {
    fn of(files: &TlsFiles) -> Self {
        let stamp = |path: &Option<PathBuf>| {
            let file = std::fs::metadata(path.as_deref()?).ok()?;
            Some(Stamp {
                modified: file.modified().ok(),
                bytes: file.len(),
                #[cfg(unix)]
                inode: std::os::unix::fs::MetadataExt::ino(&file),
            })
        };
        Self([&files.ca, &files.certificate, &files.key].map(stamp))
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| refusal(path, &error.to_string()))?;
            }
        }
        None => {
            // Some of the system's certificates may be unreadable; what counts is that there is one to trust.
            let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if added == 0 {
                return Err(Error::new(
                    Code::Tls,
                    "the system names no certificate authority to trust; give one with `tls_ca`",
                ));
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| refusal(path, &error.to_string()))?;
    if certificates.is_empty() {
        return Err(refusal(path, "it has no certificate"));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| refusal(path, &error.to_string()))
}

fn refusal(path: &Path, why: &str) -> Error {
    Error::new(Code::Tls, format!("the file cannot be used: {why}")).about(path.display().to_string())
}

/// Whether the cause of a failure, however deeply wrapped, is TLS.
pub(crate) fn is_cause(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<rustls::Error>() {
            return true;
        }
        // An io::Error does not name what it wraps as its source.
        if let Some(inner) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref)
            && is_cause(inner)
        {
            return true;
        }
        cause = error.source();
    }
    false
}
