//! The command line: the program's name and the flags of Linkerd's controller, as its chart passes them.

use std::{ffi::OsString, net::SocketAddr};

use anyhow::{Context, Result, bail};
use evergreen_kube::log::{Format, Level};

/// The program's name, by which the binary knows that it is the repair controller.
pub const PROGRAM: &str = "linkerd-cni-repair-controller";

/// The parsed flags.
#[derive(Debug)]
pub struct Flags {
    /// Address of probes and metrics.
    pub admin: SocketAddr,
    /// Least severe level that is logged.
    pub level: Level,
    /// Format of the log.
    pub format: Format,
}

impl Flags {
    /// Parses the command line. Flags that Linkerd's controller does not have are errors.
    pub fn parse(arguments: Vec<OsString>) -> Result<Self> {
        use lexopt::Arg::Long;
        let mut flags = Self {
            admin: SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 0], 9990)),
            level: Level::Info,
            format: Format::Logfmt,
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
                // A level, or a list such as `linkerd_cni_repair_controller=info,warn`.
                "log-level" => {
                    let text = parser.value()?.into_string().unwrap_or_default();
                    flags.level = if text.contains("debug") || text.contains("trace") {
                        Level::Debug
                    } else {
                        Level::Info
                    };
                }
                "log-format" => {
                    let text = parser.value()?.into_string().unwrap_or_default();
                    flags.format = Format::parse(&text)
                        .with_context(|| format!("--log-format is {text:?}: write `plain` or `json`"))?;
                }
                other => bail!("unknown flag --{other}: use --admin-addr, --log-format or --log-level"),
            }
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_linkerds_chart_are_accepted() {
        let flags = |list: &[&str]| Flags::parse(list.iter().map(Into::into).collect());
        let parsed = flags(&[
            "--admin-addr",
            "[::]:9990",
            "--log-format",
            "plain",
            "--log-level",
            "info",
        ])
        .unwrap();
        assert_eq!(parsed.admin.port(), 9990);
        assert_eq!(parsed.format, Format::Logfmt);
        assert_eq!(flags(&["--log-format=json"]).unwrap().format, Format::Json);
        assert!(flags(&["--log-format=xml"]).is_err());
        assert!(flags(&["--admin-addr=0.0.0.0:9990"]).is_ok());
        assert!(flags(&["--admin-addr", "here"]).is_err() && flags(&["--else"]).is_err());
    }
}
