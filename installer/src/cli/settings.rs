//! Every variable and flag, its default and meaning, in one table, which `--help` and the README show. All other code gets
//! its settings from here and never reads the environment.

use std::{collections::BTreeMap, ffi::OsString, fmt::Write};

use anyhow::{Context, Result, bail};

/// A setting, given by a flag or else by an environment variable.
#[derive(Debug)]
pub struct Setting {
    /// The variable. The flag is the same in lower case with dashes, without `EVERGREEN_`.
    pub variable: &'static str,
    /// The default; empty for none.
    pub default: &'static str,
    /// The meaning, for `--help`.
    pub meaning: &'static str,
}

/// The table. Linkerd's chart sets the names without `EVERGREEN_`.
pub const SETTINGS: &[Setting] = &[
    Setting {
        variable: "DEST_CNI_BIN_DIR",
        default: "/opt/cni/bin",
        meaning: "directory on the node from which the runtime runs plugins",
    },
    Setting {
        variable: "DEST_CNI_NET_DIR",
        default: "/etc/cni/net.d",
        meaning: "directory on the node from which the runtime loads networks",
    },
    Setting {
        variable: "CONTAINER_MOUNT_PREFIX",
        default: "/host",
        meaning: "where the node's directories are mounted; empty when this is the node itself",
    },
    Setting {
        variable: "CONTAINER_CNI_BIN_DIR",
        default: "/opt/cni/bin",
        meaning: "directory in the image whose files are installed; the plugin is installed under the name in `type`",
    },
    Setting {
        variable: "CNI_NETWORK_CONFIG",
        default: "",
        meaning: "template of our entry in the conflist, as JSON",
    },
    Setting {
        variable: "CNI_NETWORK_CONFIG_FILE",
        default: "",
        meaning: "file with that template, read if CNI_NETWORK_CONFIG is not set",
    },
    Setting {
        variable: "KUBECONFIG_FILE_NAME",
        default: "ZZZ-linkerd-cni-kubeconfig",
        meaning: "file name of the plugin's kubeconfig in DEST_CNI_NET_DIR",
    },
    Setting {
        variable: "KUBE_TOKEN_FILE",
        default: "/var/run/secrets/kubernetes.io/serviceaccount/token",
        meaning: "this pod's token, as the kubelet refreshes it",
    },
    Setting {
        variable: "KUBE_CA_FILE",
        default: "",
        meaning: "CA bundle to verify the API server with; by default `ca.crt` beside the token",
    },
    Setting {
        variable: "EVERGREEN_EXTRA_CA_FILE",
        default: "",
        meaning: "additional CA certificates, joined with those of KUBE_CA_FILE",
    },
    Setting {
        variable: "KUBERNETES_SERVICE_HOST",
        default: "",
        meaning: "address of the API server; the kubelet sets it",
    },
    Setting {
        variable: "KUBERNETES_SERVICE_PORT",
        default: "443",
        meaning: "port of the API server; the kubelet sets it",
    },
    Setting {
        variable: "SLEEP",
        default: "true",
        meaning: "without a subcommand: `true` means `run`, `false` means `once`",
    },
    Setting {
        variable: "EVERGREEN_CONFLIST",
        default: "first",
        meaning: "which network gets our entry: `first` (the one the runtime uses), `all`, or the name of a file",
    },
    Setting {
        variable: "EVERGREEN_WAIT_SECONDS",
        default: "10",
        meaning: "how long `once` waits for a network to appear before it gives up with exit code 1",
    },
    Setting {
        variable: "EVERGREEN_ON_TERM",
        default: "auto",
        meaning: "what `run` does on SIGTERM: `remove` everything, `keep` everything, or `auto`: remove on an uninstall, keep \
                  on an update",
    },
    Setting {
        variable: "EVERGREEN_ON_TERM_UNSURE",
        default: "keep",
        meaning: "what `auto` does if the API server does not give enough evidence: `keep` or `remove`",
    },
    Setting {
        variable: "EVERGREEN_DAEMONSET",
        default: "linkerd-cni",
        meaning: "name of this pod's DaemonSet, in the pod's namespace",
    },
    Setting {
        variable: "EVERGREEN_TOKEN_SOURCE",
        default: "auto",
        meaning: "which token the plugin uses: `request` one of its own, `copy` this pod's, `kubelet-volume` (the kubelet's \
                  own files), or `auto`: `run` requests one and falls back to a copy, `once` uses the volume",
    },
    Setting {
        variable: "EVERGREEN_KUBELET_DIR",
        default: "/var/lib/kubelet",
        meaning: "the kubelet's root directory on this node, which holds the volumes of its pods",
    },
    Setting {
        variable: "EVERGREEN_SERVICE_ACCOUNT",
        default: "",
        meaning: "ServiceAccount to request a token for, as NAME or NAMESPACE/NAME; by default this pod's own",
    },
    Setting {
        variable: "EVERGREEN_TOKEN_AUDIENCE",
        default: "",
        meaning: "audiences of a requested token, comma-separated; by default the API server's own",
    },
    Setting {
        variable: "EVERGREEN_TOKEN_SECONDS",
        default: "86400",
        meaning: "requested lifetime of the token in seconds, at least 600; the API server may shorten it",
    },
    Setting {
        variable: "NODE_NAME",
        default: "",
        meaning: "name of this node, to which a requested token is bound; by default from this pod's token",
    },
    Setting {
        variable: "EVERGREEN_KEEP_BINARY",
        default: "false",
        meaning: "`true` keeps the plugin's binary on removal, for runtimes that call it again to stop pods it was called for",
    },
    Setting {
        variable: "EVERGREEN_ADMIN_PORT",
        default: "9991",
        meaning: "port of /livez, /readyz and /metrics during `run`; `off` for none, 0 for any free port",
    },
    Setting {
        variable: "EVERGREEN_LOG_LEVEL",
        default: "info",
        meaning: "`debug`, `info` or `warn`",
    },
    Setting {
        variable: "EVERGREEN_LOG_FORMAT",
        default: "logfmt",
        meaning: "`logfmt` or `json`; `plain` means `logfmt`",
    },
];

/// The variables for which an empty value is a value.
const EMPTY_COUNTS: &[&str] = &["CONTAINER_MOUNT_PREFIX"];

/// The settings that were given, not yet checked.
#[derive(Debug, Default)]
pub struct RawSettings(BTreeMap<&'static str, String>);

impl Setting {
    /// Returns the flag without its leading dashes.
    pub fn flag(&self) -> String {
        self.variable
            .trim_start_matches("EVERGREEN_")
            .to_lowercase()
            .replace('_', "-")
    }

    /// Returns the setting of a flag.
    pub fn by_flag(flag: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|s| s.flag() == flag)
    }
}

impl RawSettings {
    /// Adds a flag.
    pub fn flag(&mut self, setting: &'static Setting, value: OsString) -> Result<()> {
        self.insert(setting, value)
            .with_context(|| format!("read --{}", setting.flag()))
    }

    /// Adds the environment variables whose flag was not given.
    pub fn with_variables(mut self, lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        for setting in SETTINGS {
            if let Some(value) = lookup(setting.variable)
                && !self.0.contains_key(setting.variable)
            {
                self.insert(setting, value)
                    .with_context(|| format!("read {}", setting.variable))?;
            }
        }
        Ok(self)
    }

    /// Returns the value of a variable in the table, or its default.
    pub fn value(&self, variable: &str) -> &str {
        let default = SETTINGS
            .iter()
            .find(|s| s.variable == variable)
            .map_or("", |s| s.default);
        match self.0.get(variable) {
            Some(value) if !value.is_empty() || EMPTY_COUNTS.contains(&variable) => value,
            _ => default,
        }
    }

    fn insert(&mut self, setting: &'static Setting, value: OsString) -> Result<()> {
        let Ok(value) = value.into_string() else {
            bail!("the value is not UTF-8")
        };
        self.0.insert(setting.variable, value);
        Ok(())
    }
}

/// Returns the table as `--help` and the README show it.
pub fn table() -> String {
    let mut text = String::new();
    for setting in SETTINGS {
        let default = match setting.default {
            "" => String::new(),
            default => format!(" [default: {default}]"),
        };
        let _ = writeln!(
            text,
            "  {}, --{} VALUE\n      {}{default}",
            setting.variable,
            setting.flag(),
            setting.meaning
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_precedes_variable_precedes_default() {
        let environment =
            |name: &str| (name == "SLEEP" || name == "KUBE_CA_FILE").then(|| OsString::from("v"));
        let mut settings = RawSettings::default();
        settings
            .flag(Setting::by_flag("sleep").unwrap(), "f".into())
            .unwrap();
        let settings = settings.with_variables(environment).unwrap();
        assert_eq!(settings.value("SLEEP"), "f");
        assert_eq!(settings.value("KUBE_CA_FILE"), "v");
        assert_eq!(settings.value("DEST_CNI_NET_DIR"), "/etc/cni/net.d");
    }

    #[test]
    fn empty_variable_counts_only_for_mount_prefix() {
        let settings = RawSettings::default()
            .with_variables(|_| Some(OsString::new()))
            .unwrap();
        assert_eq!(settings.value("DEST_CNI_NET_DIR"), "/etc/cni/net.d");
        assert_eq!(settings.value("CONTAINER_MOUNT_PREFIX"), "");
    }

    #[test]
    fn readme_shows_the_settings_table() {
        let (readme, table) = (include_str!("../../README.md"), table());
        let shown = readme.contains(&format!("```\n{table}```\n"));
        assert!(shown, "installer/README.md must contain:\n{table}");
    }

    #[test]
    fn each_setting_has_its_own_flag() {
        for setting in SETTINGS {
            assert_eq!(
                Setting::by_flag(&setting.flag()).unwrap().variable,
                setting.variable
            );
        }
    }
}
