//! Every variable and flag, its default and meaning, in one table. `--help` prints it, the README holds the same text, and
//! nothing else in the program reads the environment.

use std::{collections::BTreeMap, ffi::OsString, fmt::Write};

use anyhow::{Context, Result, bail};

/// One thing that can be set, by a flag or, when the flag is absent, by a variable.
#[derive(Debug)]
pub struct Setting {
    /// Name of the variable; the flag is the same in lower case with dashes, without `EVERGREEN_`.
    pub variable: &'static str,
    /// What holds when neither is given. Empty: nothing.
    pub default: &'static str,
    /// For people.
    pub meaning: &'static str,
}

/// The table. The names without `EVERGREEN_` are those that Linkerd's chart sets.
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
        meaning: "directory of the image whose files are installed; the plugin among them gets the name `type` asks for",
    },
    Setting {
        variable: "CNI_NETWORK_CONFIG",
        default: "",
        meaning: "template of our entry in the conflist, as JSON",
    },
    Setting {
        variable: "CNI_NETWORK_CONFIG_FILE",
        default: "",
        meaning: "file with that template, read when CNI_NETWORK_CONFIG is not set",
    },
    Setting {
        variable: "KUBECONFIG_FILE_NAME",
        default: "ZZZ-linkerd-cni-kubeconfig",
        meaning: "name of the plugin's kubeconfig in the net dir",
    },
    Setting {
        variable: "KUBE_TOKEN_FILE",
        default: "/var/run/secrets/kubernetes.io/serviceaccount/token",
        meaning: "this pod's token, as the kubelet refreshes it",
    },
    Setting {
        variable: "KUBE_CA_FILE",
        default: "",
        meaning: "certificates that the API server is checked against; `ca.crt` beside the token when not set",
    },
    Setting {
        variable: "EVERGREEN_EXTRA_CA_FILE",
        default: "",
        meaning: "further certificates, joined with those of KUBE_CA_FILE",
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
        meaning: "what `run` does when it is asked to end: `remove` everything, `keep` everything, or `auto`: \
                  remove only when its DaemonSet is going away",
    },
    Setting {
        variable: "EVERGREEN_ON_TERM_UNSURE",
        default: "keep",
        meaning: "what `auto` does when the API server cannot be asked: `keep` or `remove`",
    },
    Setting {
        variable: "EVERGREEN_DAEMONSET",
        default: "linkerd-cni",
        meaning: "name of the DaemonSet this pod belongs to, in the pod's namespace",
    },
    Setting {
        variable: "EVERGREEN_TOKEN_SOURCE",
        default: "auto",
        meaning: "which token the plugin gets: `request` one of its own, `copy` this pod's, `kubelet-volume` (the kubelet's \
                  own files), or `auto`: `run` requests, and copies where that is refused; `once` uses the volume",
    },
    Setting {
        variable: "EVERGREEN_KUBELET_DIR",
        default: "/var/lib/kubelet",
        meaning: "where the kubelet keeps its pods' volumes on this node",
    },
    Setting {
        variable: "EVERGREEN_SERVICE_ACCOUNT",
        default: "",
        meaning: "whose token is requested, as NAME or NAMESPACE/NAME; this pod's own account when not set",
    },
    Setting {
        variable: "EVERGREEN_TOKEN_AUDIENCE",
        default: "",
        meaning: "for whom it is, several by comma; the API server's own audience when not set",
    },
    Setting {
        variable: "EVERGREEN_TOKEN_SECONDS",
        default: "86400",
        meaning: "for how long it is asked, at least 600; what the server gives is obeyed",
    },
    Setting {
        variable: "NODE_NAME",
        default: "",
        meaning: "name of this node, which a requested token dies with; what this pod's token says when not set",
    },
    Setting {
        variable: "EVERGREEN_KEEP_BINARY",
        default: "false",
        meaning: "`true` leaves the plugin's file at a removal: a runtime that remembers how a pod was started can still stop it",
    },
    Setting {
        variable: "EVERGREEN_ADMIN_PORT",
        default: "9991",
        meaning: "port of /livez, /readyz and /metrics while `run` runs; `off` for none, 0 for any that is free",
    },
    Setting {
        variable: "EVERGREEN_LOG_LEVEL",
        default: "info",
        meaning: "`debug`, `info` or `warn`",
    },
];

/// The variables whose empty value means something else than their default.
const EMPTY_COUNTS: &[&str] = &["CONTAINER_MOUNT_PREFIX"];

/// What was set, by whom, not yet checked.
#[derive(Debug, Default)]
pub struct RawSettings(BTreeMap<&'static str, String>);

impl Setting {
    /// The flag that sets it, without the dashes before it.
    pub fn flag(&self) -> String {
        self.variable
            .trim_start_matches("EVERGREEN_")
            .to_lowercase()
            .replace('_', "-")
    }

    /// The setting a flag belongs to.
    pub fn by_flag(flag: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|s| s.flag() == flag)
    }
}

impl RawSettings {
    /// Remembers a flag.
    pub fn flag(&mut self, setting: &'static Setting, value: OsString) -> Result<()> {
        self.put(setting, value)
            .with_context(|| format!("read --{}", setting.flag()))
    }

    /// Adds the variables that no flag has overruled.
    pub fn variables(mut self, lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        for setting in SETTINGS {
            if let Some(value) = lookup(setting.variable)
                && !self.0.contains_key(setting.variable)
            {
                self.put(setting, value)
                    .with_context(|| format!("read {}", setting.variable))?;
            }
        }
        Ok(self)
    }

    /// The value of a variable in the table, or its default.
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

    fn put(&mut self, setting: &'static Setting, value: OsString) -> Result<()> {
        let Ok(value) = value.into_string() else {
            bail!("the value is not UTF-8")
        };
        self.0.insert(setting.variable, value);
        Ok(())
    }
}

/// The table for people, as `--help` and the README print it.
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
    fn a_flag_overrules_a_variable_and_a_variable_the_default() {
        let environment =
            |name: &str| (name == "SLEEP" || name == "KUBE_CA_FILE").then(|| OsString::from("v"));
        let mut given = RawSettings::default();
        given
            .flag(Setting::by_flag("sleep").unwrap(), "f".into())
            .unwrap();
        let given = given.variables(environment).unwrap();
        assert_eq!(given.value("SLEEP"), "f");
        assert_eq!(given.value("KUBE_CA_FILE"), "v");
        assert_eq!(given.value("DEST_CNI_NET_DIR"), "/etc/cni/net.d");
    }

    #[test]
    fn an_empty_variable_is_not_set_except_for_the_mount_prefix() {
        let given = RawSettings::default()
            .variables(|_| Some(OsString::new()))
            .unwrap();
        assert_eq!(given.value("DEST_CNI_NET_DIR"), "/etc/cni/net.d");
        assert_eq!(given.value("CONTAINER_MOUNT_PREFIX"), "");
    }

    #[test]
    fn the_readme_holds_the_same_table() {
        let readme = include_str!("../../README.md");
        assert!(
            readme.contains(&format!("```\n{}```\n", table())),
            "put this into installer/README.md:\n{}",
            table()
        );
    }

    #[test]
    fn the_readme_holds_the_table_as_help_prints_it() {
        assert!(
            include_str!("../../README.md").contains(&table()),
            "installer/README.md should hold:\n{}",
            table()
        );
    }

    #[test]
    fn every_setting_has_a_flag_of_its_own() {
        for setting in SETTINGS {
            assert_eq!(
                Setting::by_flag(&setting.flag()).unwrap().variable,
                setting.variable
            );
        }
    }
}
