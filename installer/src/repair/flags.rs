//! The flags of Linkerd's own controller, as its chart gives them.

use std::{ffi::OsString, net::SocketAddr};

use anyhow::{Context, Result, bail};
use evergreen_kube::log::Level;

/// What they say.
#[derive(Debug)]
pub struct Flags {
    /// Where probes and metrics are served.
    pub admin: SocketAddr,
    /// How much is logged.
    pub level: Level,
}

impl Flags {
    /// Reads them; one that Linkerd's controller does not have is refused.
    pub fn read(arguments: Vec<OsString>) -> Result<Self> {
        use lexopt::Arg::Long;
        let mut flags = Self {
            admin: SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 0], 9990)),
            level: Level::Info,
        };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next()? {
            let Long(name) = argument else {
                return Err(argument.unexpected().into());
            };
            match name {
                "admin-addr" => {
                    let text = parser.value()?.into_string().unwrap_or_default();
                    flags.admin = text
                        .parse()
                        .ok()
                        .with_context(|| format!("--admin-addr is {text:?}: write ADDRESS:PORT"))?;
                }
                // `info`, or a list such as `linkerd_cni_repair_controller=info,warn`: only the word matters here.
                "log-level" => {
                    let text = parser.value()?.into_string().unwrap_or_default();
                    flags.level = if text.contains("debug") || text.contains("trace") {
                        Level::Debug
                    } else {
                        Level::Info
                    };
                }
                // Lines are lines in either.
                "log-format" => drop(parser.value()?),
                other => bail!(
                    "unknown flag --{other}; those of Linkerd's controller are --admin-addr, --log-format, --log-level"
                ),
            }
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_linkerds_chart_are_taken() {
        let flags = |list: &[&str]| Flags::read(list.iter().map(Into::into).collect());
        let given = flags(&[
            "--admin-addr",
            "[::]:9990",
            "--log-format",
            "plain",
            "--log-level",
            "info",
        ])
        .unwrap();
        assert_eq!(given.admin.port(), 9990);
        assert!(flags(&["--admin-addr=0.0.0.0:9990"]).is_ok());
        assert!(flags(&["--admin-addr", "here"]).is_err() && flags(&["--else"]).is_err());
    }
}
