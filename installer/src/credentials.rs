//! The plugin's way to the API server: token, CA bundle and the kubeconfig that names them. Only the first two ever change,
//! each by a rename of its own. Touches our own directory and the kubeconfig.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use evergreen_cni::kube::{Secret, certificate::Certificate, claims::Claims, clock, trust::Bundle};
use serde_json::{Value, json};

use crate::{
    atomic::{self, Access},
    config::{Config, Place},
    host::HostPath,
    keeper::Token,
    report::{Credential, Report},
    sys,
    token::{Kind, Minted},
};

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
const SECRET: Access<'static> = Access::Mode(SECRET_MODE);
const SECRET_MODE: u32 = 0o600;

/// What the pod's projected volume holds, from one generation of it.
struct Source {
    token: Result<Vec<u8>>,
    ca: Result<Vec<u8>>,
}

/// Makes the node's files right. True when the plugin can work with them.
pub fn make_it_so(config: &Config, wanted: &Token, report: &mut Report) -> bool {
    let place = &config.place;
    for leftover in atomic::sweep(place.own_dir.here()) {
        report.changed(
            "removed a leftover",
            &place.own_dir.join(leftover.file_name().unwrap_or_default()),
        );
    }
    let source = Source::read(&config.token_file, &config.ca_file);
    let ca = source.ca.and_then(|ca| usable_ca(ca, &ca_file(place)));
    let ca = keep(&ca_file(place), ca, "ca", &config.ca_file, report);
    let kind = match wanted {
        Token::Minted(minted) => minted.kind,
        Token::Undecided => minted_before(config).map_or(Kind::Copy, |m| m.kind),
        Token::Copy(_) => Kind::Copy,
    };
    let token = match wanted {
        Token::Minted(minted) => Ok(minted.token.reveal().to_vec()),
        Token::Undecided if kind != Kind::Copy => fs::read(token_file(place).here()).context("read it"),
        Token::Undecided | Token::Copy(_) => source.token,
    };
    let token = keep(&token_file(place), token, "token", &config.token_file, report);
    let record = Record::of(config, wanted, kind);
    if token && Record::read(place).is_none_or(|found| !found.says(&record)) {
        keep(
            &record_file(place),
            Ok(record.text()),
            "token",
            Path::new(""),
            report,
        );
    }
    report.credential = token.then(|| on_node(place, kind));
    // The kubeconfig last: it must not name what is not there.
    let kubeconfig = Ok(kubeconfig(config).into_bytes());
    ca && token && keep(&place.kubeconfig, kubeconfig, "kubeconfig", Path::new(""), report)
}

/// The pod's own token as it is now.
pub fn pod_token(config: &Config) -> Result<Vec<u8>> {
    Source::read(&config.token_file, &config.ca_file).token
}

/// The pod's namespace: the kubelet puts it beside the token, and the token says it too.
pub fn own_namespace(config: &Config) -> Option<String> {
    let beside = fs::read_to_string(config.token_file.with_file_name("namespace")).ok();
    let beside = beside.map(|n| n.trim().to_owned()).filter(|n| !n.is_empty());
    beside.or_else(|| Claims::read(&pod_token(config).ok()?).map(|c| c.kubernetes.namespace))
}

/// The token on the node, when it is one that was requested for this configuration and still has a while to live.
pub fn minted_before(config: &Config) -> Option<Minted> {
    let record = Record::read(&config.place)?;
    let token = fs::read(token_file(&config.place).here()).ok()?;
    let lives = record.ends.is_some_and(|ends| ends > clock::now() + 60);
    let fits = lives && record.kind != Kind::Copy && record.asked == asked(config) && record.is_of(&token);
    fits.then(|| Minted {
        token: Secret::new(token),
        kind: record.kind,
        ends: record.ends.unwrap_or_default(),
        renew_at: record.renew_at.unwrap_or_default(),
    })
}

fn on_node(place: &Place, kind: Kind) -> Credential {
    let read = |file: HostPath| fs::read(file.here()).unwrap_or_default();
    let certificates = Bundle::parse(&read(ca_file(place))).certificates;
    Credential {
        kind,
        ends: Claims::read(&read(token_file(place))).and_then(|claims| claims.exp),
        ca_ends: certificates
            .iter()
            .filter_map(|der| Certificate::read(der))
            .map(|c| c.not_after)
            .min(),
    }
}

/// What lies beside the token: how it was made, why so, and when the next one is due.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    kind: Kind,
    because: String,
    /// Account and audiences that were configured.
    asked: String,
    ends: Option<i64>,
    renew_at: Option<i64>,
    /// The token's own id.
    id: String,
}

impl Record {
    fn of(config: &Config, wanted: &Token, kind: Kind) -> Self {
        let minted = match wanted {
            Token::Minted(minted) => Some(minted),
            Token::Undecided | Token::Copy(_) => None,
        };
        let because = match wanted {
            Token::Copy(because) => because,
            Token::Minted(_) | Token::Undecided => "",
        };
        let claims = minted.and_then(|m| Claims::read(m.token.reveal()));
        Self {
            kind,
            because: because.to_owned(),
            asked: asked(config),
            ends: minted.map(|m| m.ends),
            renew_at: minted.map(|m| m.renew_at),
            id: claims.map(|c| c.jti).unwrap_or_default(),
        }
    }

    fn read(place: &Place) -> Option<Self> {
        let value: Value = serde_json::from_slice(&fs::read(record_file(place).here()).ok()?).ok()?;
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Some(Self {
            kind: Kind::from_word(&text("kind"))?,
            because: text("because"),
            asked: text("asked"),
            ends: value["ends"].as_i64(),
            renew_at: value["renew-at"].as_i64(),
            id: text("id"),
        })
    }

    fn text(&self) -> Vec<u8> {
        let value = json!({"kind": self.kind.word(), "because": self.because, "asked": self.asked,
            "ends": self.ends, "renew-at": self.renew_at, "id": self.id});
        format!("{value:#}\n").into_bytes()
    }

    /// True when this record, which was found, needs no change to say what is wanted: what is not known yet (no reason, no
    /// times) does not replace what is.
    fn says(&self, wanted: &Self) -> bool {
        self == wanted || (self.kind == wanted.kind && wanted.because.is_empty() && wanted.ends.is_none())
    }

    fn is_of(&self, token: &[u8]) -> bool {
        Claims::read(token).is_some_and(|claims| claims.jti == self.id)
    }
}

fn asked(config: &Config) -> String {
    let account = config
        .account
        .clone()
        .map(|(namespace, name)| format!("{namespace}/{name}"));
    format!("{} {}", account.unwrap_or_default(), config.audiences.join(","))
}

/// Takes them away, the kubeconfig first.
pub fn take_away(place: &Place, report: &mut Report) {
    for file in [
        place.kubeconfig.clone(),
        token_file(place),
        record_file(place),
        ca_file(place),
    ] {
        match atomic::remove(file.here()) {
            Ok(true) => report.changed("removed", &file),
            Ok(false) => {}
            Err(error) => report.failed("credentials", &file, &error),
        }
    }
    atomic::sweep(place.own_dir.here());
    match fs::remove_dir(place.own_dir.here()) {
        Ok(()) => report.changed("removed our directory", &place.own_dir),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => report.failed(
            "credentials",
            &place.own_dir,
            &anyhow::Error::new(e).context("remove our directory"),
        ),
    }
}

/// Where the plugin's token is.
pub fn token_file(place: &Place) -> HostPath {
    place.own_dir.join("token")
}

/// Where its CA bundle is.
pub fn ca_file(place: &Place) -> HostPath {
    place.own_dir.join("ca.crt")
}

fn record_file(place: &Place) -> HostPath {
    place.own_dir.join("credential")
}

/// JSON, which is YAML too and which no reader can misunderstand. The names are those that linkerd-cni uses.
fn kubeconfig(config: &Config) -> String {
    let value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {
            "server": config.server,
            "certificate-authority": ca_file(&config.place).host(),
        }}],
        "users": [{"name": "linkerd-cni", "user": {"tokenFile": token_file(&config.place).host()}}],
        "contexts": [{"name": "linkerd-cni-context", "context": {"cluster": "local", "user": "linkerd-cni"}}],
        "current-context": "linkerd-cni-context",
    });
    format!("{value:#}\n")
}

/// Makes one secret file be this content; a source that is not usable leaves what is there. True when it is right.
fn keep(
    file: &HostPath,
    content: Result<Vec<u8>>,
    operation: &'static str,
    source: &Path,
    report: &mut Report,
) -> bool {
    let content = match content {
        Ok(content) => content,
        Err(error) => {
            report.problem(operation, format_args!("{}: {error:#}", source.display()));
            // An older one may still be good; the plugin says so itself when it is not.
            return is_secret(file.here()).unwrap_or(false);
        }
    };
    match write_secret(file.here(), &content) {
        Ok(changed) => {
            if changed {
                report.changed("wrote", file);
            }
            true
        }
        Err(error) => {
            report.failed(operation, file, &error);
            false
        }
    }
}

/// True when something was written.
fn write_secret(path: &Path, content: &[u8]) -> Result<bool> {
    if is_secret(path).context("look at it")? && fs::read(path).context("read it")? == content {
        return Ok(false);
    }
    atomic::replace(path, content, SECRET)?;
    Ok(true)
}

/// True for a plain file that only we can read.
fn is_secret(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(m) => Ok(m.is_file() && m.mode() & 0o7777 == SECRET_MODE && m.uid() == sys::effective_uid()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

impl Source {
    /// Reads both files. Where they lie in one projected volume they come from one generation of it: the kubelet replaces
    /// the link `..data` and then deletes the old directory behind it, at any time.
    fn read(token_file: &Path, ca_file: &Path) -> Self {
        let mut read = Self::read_once(token_file, ca_file);
        for _ in 0..10 {
            let vanished = |r: &Result<Vec<u8>>| {
                r.as_ref().is_err_and(|e| {
                    e.downcast_ref::<io::Error>()
                        .is_some_and(|e| e.kind() == io::ErrorKind::NotFound)
                })
            };
            if !vanished(&read.token) && !vanished(&read.ca) {
                break;
            }
            read = Self::read_once(token_file, ca_file);
        }
        read
    }

    fn read_once(token_file: &Path, ca_file: &Path) -> Self {
        let shared = token_file.parent() == ca_file.parent();
        let token_in = generation(token_file);
        let ca_in = if shared {
            token_in.clone()
        } else {
            generation(ca_file)
        };
        let read = |dir: Option<PathBuf>, file: &Path| match (dir, file.file_name()) {
            (Some(dir), Some(name)) => fs::read(dir.join(name)),
            _ => fs::read(file),
        };
        Self {
            token: read(token_in, token_file)
                .context("read this pod's token")
                .and_then(|t| usable_token(&t)),
            ca: read(ca_in, ca_file).context("read the CA bundle"),
        }
    }
}

/// The directory that `..data` stands for now, if the file is in a volume that the kubelet writes.
fn generation(file: &Path) -> Option<PathBuf> {
    let dir = file.parent()?;
    Some(dir.join(fs::read_link(dir.join("..data")).ok()?))
}

/// The token without the newline some writers add.
fn usable_token(bytes: &[u8]) -> Result<Vec<u8>> {
    let token = bytes.trim_ascii();
    if token.is_empty() {
        bail!("the token is empty; the one on the node stays until a good one comes");
    }
    if !token.iter().all(u8::is_ascii_graphic) {
        bail!("the token holds bytes that no token has; the one on the node stays until a good one comes");
    }
    Ok(token.to_vec())
}

/// The bundle as it is, when there is a certificate in it. One that only looks like a bundle is better than none, but never
/// replaces a good one.
fn usable_ca(bytes: Vec<u8>, on_node: &HostPath) -> Result<Vec<u8>> {
    let good = |pem: &[u8]| !Bundle::parse(pem).certificates.is_empty();
    let looks_good = bytes.windows(BEGIN.len()).any(|w| w == BEGIN);
    if !looks_good || (!good(&bytes) && fs::read(on_node.here()).is_ok_and(|there| good(&there))) {
        bail!("no good certificate in the CA bundle; the one on the node stays until a good one comes");
    }
    Ok(bytes)
}
