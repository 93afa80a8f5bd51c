//! A private certificate authority, made anew for each server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

/// The PEM files of one private authority, of a server and of a client that it vouches for.
///
/// The server's certificate holds for `localhost`, `127.0.0.1` and `::1`.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority's certificate: what a client must trust.
    pub authority: PathBuf,
    /// The server's certificate.
    pub server_certificate: PathBuf,
    /// The server's private key.
    pub server_key: PathBuf,
    /// A client's certificate.
    pub client_certificate: PathBuf,
    /// That client's private key.
    pub client_key: PathBuf,
}

impl Certificates {
    /// Makes a new authority and writes its files into `folder`, which must exist.
    ///
    /// Two calls give two authorities that do not trust each other.
    pub fn generate(folder: &Path) -> io::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("echomq test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let authority = write(folder, "ca.pem", &params.self_signed(&key).map_err(io::Error::other)?.pem())?;
        let issuer = Issuer::new(params, key);

        let hosts = ["localhost", "127.0.0.1", "::1"].map(String::from).to_vec();
        let (server_certificate, server_key) =
            issue(folder, "server", hosts, ExtendedKeyUsagePurpose::ServerAuth, &issuer)?;
        let (client_certificate, client_key) =
            issue(folder, "client", Vec::new(), ExtendedKeyUsagePurpose::ClientAuth, &issuer)?;
        Ok(Self { authority, server_certificate, server_key, client_certificate, client_key })
    }
}

fn issue(
    folder: &Path,
    subject: &str,
    hosts: Vec<String>,
    purpose: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> io::Result<(PathBuf, PathBuf)> {
    let mut params = CertificateParams::new(hosts).map_err(io::Error::other)?;
    params.distinguished_name = name(&format!("echomq test {subject}"));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = params.signed_by(&key, issuer).map_err(io::Error::other)?;
    Ok((
        write(folder, &format!("{subject}.pem"), &certificate.pem())?,
        write(folder, &format!("{subject}.key"), &key.serialize_pem())?,
    ))
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn write(folder: &Path, file: &str, text: &str) -> io::Result<PathBuf> {
    let path = folder.join(file);
    fs::write(&path, text)?;
    Ok(path)
}
