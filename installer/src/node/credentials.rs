//! The plugin's way to the API server: token, CA bundle and the kubeconfig that names them. Only the first two ever change,
//! each by a rename of its own. Touches our own directory and the kubeconfig.

mod kept;

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use anyhow::{Context, Result, anyhow, bail};
use evergreen_kube::clock;
use serde_json::{Value, json};

use crate::{
    cli::config::{Config, Paths, TokenSource},
    cluster::{
        existing_token,
        identity::PodFiles,
        token::{Kind, Token},
    },
    host::HostPath,
    node::{
        atomic::{self, Access},
        ca,
        report::Report,
    },
    sys,
};

const SECRET: Access<'static> = Access::Mode(SECRET_MODE);
const SECRET_MODE: u32 = 0o600;

/// Makes the node's files right. True when the plugin can work with them.
pub fn ensure(config: &Config, wanted: &Token, report: &mut Report) -> bool {
    let paths = &config.paths;
    let (in_place, kind) = match wanted {
        Token::Volume(_) => (true, Kind::KubeletVolume),
        _ => keep_copies(config, wanted, report),
    };
    if !in_place {
        return false;
    }
    keep(
        &paths.record_file(),
        Ok(kept::record(paths, wanted, kind)),
        "token",
        Path::new(""),
        report,
    );
    report.credential = Some(kept::facts(config, wanted, kind));
    // The kubeconfig never names what is not there: after its files when they come, before them when they go.
    let kubeconfig = Ok(kubeconfig(config, wanted).into_bytes());
    let in_place = keep(&paths.kubeconfig, kubeconfig, "kubeconfig", Path::new(""), report);
    if in_place && kind == Kind::KubeletVolume {
        remove_copies(paths, report);
    }
    in_place
}

/// Token and CA in our own directory.
fn keep_copies(config: &Config, wanted: &Token, report: &mut Report) -> (bool, Kind) {
    let paths = &config.paths;
    let source = PodFiles::read(&config.server);
    let ca = keep_ca(config, source.ca, report);
    let kind = match wanted {
        Token::Minted(minted) => minted.kind,
        Token::Undecided => existing_token::find(config).map_or(Kind::Copy, |m| m.kind),
        Token::Copy(_) | Token::Volume(_) => Kind::Copy,
    };
    let token = match wanted {
        Token::Minted(minted) => Ok(minted.token.reveal().to_vec()),
        Token::Undecided if kind != Kind::Copy => fs::read(paths.token_file().here()).context("read it"),
        Token::Undecided if config.token_source != TokenSource::Auto => Err(anyhow!(
            "there is none yet of the source that EVERGREEN_TOKEN_SOURCE names"
        )),
        Token::Undecided | Token::Copy(_) | Token::Volume(_) => source.token,
    };
    let token = keep(
        &paths.token_file(),
        token,
        "token",
        &config.server.token_file,
        report,
    );
    (ca && token, kind)
}

fn keep_ca(config: &Config, mounted: Result<Vec<u8>>, report: &mut Report) -> bool {
    let file = config.paths.ca_file();
    let before = fs::read(file.here()).unwrap_or_default();
    let wanted = mounted.and_then(|mounted| usable_ca(config, mounted, &before, report));
    let changes = wanted
        .as_ref()
        .map(|wanted| ca::differences(&before, wanted))
        .unwrap_or_default();
    let right = keep(&file, wanted, "ca", &config.server.ca_file, report);
    if right {
        report.bundle_changed(changes);
    }
    right
}

/// The bundle for the node. One that only looks like a bundle is better than none, but never replaces a good one.
fn usable_ca(config: &Config, mounted: Vec<u8>, before: &[u8], report: &mut Report) -> Result<Vec<u8>> {
    let extra = config.extra_ca_file.as_ref().and_then(|file| {
        let read = fs::read(file);
        // The other one alone is as good as it was without this.
        read.inspect_err(|e| report.problem("ca", format_args!("{}: read it: {e}", file.display())))
            .ok()
    });
    let wanted = ca::wanted(mounted, extra.as_deref(), clock::now());
    if wanted.skipped > 0 {
        let file = config.server.ca_file.display();
        report.notice(format_args!(
            "{file}: {} blocks of the CA bundle are no certificates",
            wanted.skipped
        ));
    }
    if !ca::looks_like_one(&wanted.pem) || (!ca::is_good(&wanted.pem) && ca::is_good(before)) {
        bail!("no good certificate in the CA bundle; the one on the node stays until a good one comes");
    }
    Ok(wanted.pem)
}

/// A copy that nobody uses is a secret that lies about.
fn remove_copies(paths: &Paths, report: &mut Report) {
    for file in [paths.token_file(), paths.ca_file()] {
        report.removed("token", "removed", &file, atomic::remove(file.here()));
    }
}

/// Token and CA that the kubeconfig on the node names.
pub fn named_in_kubeconfig(config: &Config) -> Result<[HostPath; 2]> {
    let text = fs::read(config.paths.kubeconfig.here()).context("read it")?;
    let value: Value = serde_json::from_slice(&text).context("it is not ours: not JSON")?;
    let named = [
        "/users/0/user/tokenFile",
        "/clusters/0/cluster/certificate-authority",
    ];
    let [Some(token), Some(ca)] = named.map(|at| value.pointer(at).and_then(Value::as_str)) else {
        bail!("it is not ours: it names no tokenFile and certificate-authority");
    };
    let on_node = [token, ca].map(|path| HostPath::new(&config.prefix, Path::new(path)));
    let in_volume = on_node
        .iter()
        .all(|f| f.host().starts_with(config.kubelet_dir.host()) && !f.here().exists());
    // The kubelet's own files are usually not mounted here; the same volume is.
    let mounted =
        [&config.server.token_file, &config.server.ca_file].map(|file| HostPath::new(Path::new(""), file));
    Ok(if in_volume { mounted } else { on_node })
}

/// Takes them away, the kubeconfig first.
pub fn remove(paths: &Paths, report: &mut Report) {
    for file in [
        paths.kubeconfig.clone(),
        paths.token_file(),
        paths.record_file(),
        paths.ca_file(),
    ] {
        report.removed("credentials", "removed", &file, atomic::remove(file.here()));
    }
    match fs::remove_dir(paths.own_dir.here()) {
        Ok(()) => report.changed("removed our directory", &paths.own_dir),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => report.failed(
            "credentials",
            &paths.own_dir,
            &anyhow::Error::new(e).context("remove our directory"),
        ),
    }
}

/// JSON, which is YAML too and which no reader can misunderstand. The names are those that linkerd-cni uses.
fn kubeconfig(config: &Config, wanted: &Token) -> String {
    let (token, ca) = match wanted {
        Token::Volume(volume) => (volume.token.clone(), volume.ca.clone()),
        _ => {
            let host = |file: HostPath| file.host().to_path_buf();
            (host(config.paths.token_file()), host(config.paths.ca_file()))
        }
    };
    let value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {
            "server": config.server.url,
            "certificate-authority": ca,
        }}],
        "users": [{"name": "linkerd-cni", "user": {"tokenFile": token}}],
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
