//! Our entry in a conflist, made from the netconf template of the chart. Pure.

use std::path::Path;

use anyhow::{Context, Result, bail};
use evergreen_cni::protocol::netconf::{
    EXEMPT_BY_DEFAULT, Envelope, KUBECONFIG_PLACEHOLDER, NetConf, POD_ANNOTATIONS,
};
use serde_json::{Map, Value, json};

/// The checked entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    type_name: String,
    object: Value,
}

impl Entry {
    /// Makes the entry from a template, including those of older Linkerd charts. Adds what only the installer knows: the
    /// kubeconfig's path and its own namespace.
    pub fn from_template(template: &str, kubeconfig: &Path, own_namespace: Option<&str>) -> Result<Self> {
        let value: Value = serde_json::from_str(template).context("the netconf template is not JSON")?;
        let Value::Object(mut object) = value else {
            bail!("the netconf template is not a JSON object")
        };
        let type_name = file_name(object.get("type"))?;
        // Charts before 2024 had the installer write a token here, readable by every user of the node.
        object.remove("policy");
        replace_placeholders(&mut object, &kubeconfig.to_string_lossy());
        request_annotations(&mut object)?;
        if let Some(namespace) = own_namespace {
            exempt(&mut object, namespace)?;
        }
        let object = Value::Object(object);
        check_with_plugin(&object)?;
        Ok(Self { type_name, object })
    }

    /// Returns the plugin's file name, which also tells our entry from all others.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns the whole JSON object.
    pub fn object(&self) -> &Value {
        &self.object
    }
}

fn file_name(type_name: Option<&Value>) -> Result<String> {
    let Some(name) = type_name else {
        bail!("the netconf template has no `type`: name the plugin's file")
    };
    let Some(name) = name.as_str() else {
        bail!("`type` of the netconf template is not a string")
    };
    if name.is_empty() || name == "." || name == ".." || name.contains(|c: char| c == '/' || c.is_control()) {
        bail!("`type` of the netconf template is {name:?}: it must be a plain file name");
    }
    Ok(name.to_owned())
}

/// Replaces the kubeconfig placeholder, and drops every string with another placeholder: a token must not get into a
/// conflist.
fn replace_placeholders(object: &mut Map<String, Value>, kubeconfig: &str) {
    object.retain(|_, value| match value {
        Value::String(text) => {
            *text = text.replace(KUBECONFIG_PLACEHOLDER, kubeconfig);
            // `__SERVICEACCOUNT_TOKEN__`, `__KUBERNETES_SERVICE_HOST__`, `$IPTABLES_MODE`: the plugin needs none of them.
            !text.contains("__") && !text.starts_with('$')
        }
        Value::Object(inner) => {
            replace_placeholders(inner, kubeconfig);
            true
        }
        _ => true,
    });
}

/// Makes the runtime pass the pod's annotations to the plugin.
fn request_annotations(object: &mut Map<String, Value>) -> Result<()> {
    let capabilities = object.entry("capabilities").or_insert_with(|| json!({}));
    let Value::Object(capabilities) = capabilities else {
        bail!("`capabilities` of the netconf template is not an object")
    };
    capabilities.insert(POD_ANNOTATIONS.to_owned(), Value::Bool(true));
    Ok(())
}

/// Exempts the installer's namespace: its pod must not wait for the credential that only it can install.
fn exempt(object: &mut Map<String, Value>, namespace: &str) -> Result<()> {
    let given = object
        .get("evergreen")
        .and_then(|e| e.get("exempt-namespaces"))
        .cloned();
    let mut names = match given {
        None if EXEMPT_BY_DEFAULT.contains(&namespace) => return Ok(()),
        None => EXEMPT_BY_DEFAULT.map(Value::from).to_vec(),
        Some(Value::Array(names)) => names,
        Some(_) => bail!("`exempt-namespaces` of the netconf template is not a list"),
    };
    if names.iter().any(|n| n == namespace) {
        return Ok(());
    }
    names.push(namespace.into());
    let Value::Object(evergreen) = object.entry("evergreen").or_insert_with(|| json!({})) else {
        bail!("`evergreen` of the netconf template is not an object")
    };
    evergreen.insert("exempt-namespaces".to_owned(), Value::Array(names));
    Ok(())
}

/// Checks the entry with the plugin's own code. An entry that the plugin rejects would fail every pod of the node, including
/// the next installer's, which would bring the correction.
fn check_with_plugin(object: &Value) -> Result<()> {
    let mut call = object.clone();
    // The runtime adds these from the list.
    call["name"] = json!("network");
    call["cniVersion"] = json!("1.0.0");
    let stdin = call.to_string();
    let rejection = Envelope::read(stdin.as_bytes())
        .and_then(|envelope| NetConf::check(&envelope, envelope.version()?).map(|_| ()))
        .err();
    match rejection {
        Some(why) => bail!("the plugin rejects the netconf template: {why}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(template: &str, namespace: Option<&str>) -> Value {
        Entry::from_template(template, Path::new("/etc/cni/net.d/K"), namespace)
            .unwrap()
            .object
    }

    #[test]
    fn template_gets_kubeconfig_and_annotations() {
        let made = object(
            r#"{"type":"linkerd-cni","kubernetes":{"kubeconfig":"__KUBECONFIG_FILEPATH__"}}"#,
            None,
        );
        assert_eq!(
            made,
            json!({"type": "linkerd-cni", "kubernetes": {"kubeconfig": "/etc/cni/net.d/K"},
                   "capabilities": {"io.kubernetes.cri.pod-annotations": true}})
        );
    }

    #[test]
    fn old_placeholders_are_dropped() {
        let made = object(
            r#"{"type":"linkerd-cni","policy":{"type":"k8s","k8s_auth_token":"__SERVICEACCOUNT_TOKEN__"},
                "kubernetes":{"k8s_api_root":"https://__KUBERNETES_SERVICE_HOST__:__KUBERNETES_SERVICE_PORT__",
                              "kubeconfig":"__KUBECONFIG_FILEPATH__"},
                "linkerd":{"iptables-mode":"$IPTABLES_MODE","proxy-uid":2102}}"#,
            None,
        );
        let text = made.to_string();
        assert!(
            !text.contains("__") && !text.contains('$') && !text.contains("policy"),
            "{text}"
        );
        assert!(
            text.contains("2102") && text.contains("/etc/cni/net.d/K"),
            "{text}"
        );
    }

    #[test]
    fn own_namespace_is_exempt() {
        let of = |template, ns| {
            object(template, Some(ns))
                .pointer("/evergreen/exempt-namespaces")
                .cloned()
        };
        assert_eq!(of(r#"{"type":"x"}"#, "linkerd-cni"), None);
        assert_eq!(
            of(r#"{"type":"x"}"#, "mesh"),
            Some(json!(["kube-system", "linkerd-cni", "mesh"]))
        );
        let listed = r#"{"type":"x","evergreen":{"exempt-namespaces":["a"]}}"#;
        assert_eq!(of(listed, "mesh"), Some(json!(["a", "mesh"])));
    }

    #[test]
    fn invalid_template_is_rejected_with_reason() {
        for (template, reason) in [
            ("", "not JSON"),
            ("{bad", "not JSON"),
            ("[]", "not a JSON object"),
            ("{}", "no `type`"),
            (r#"{"type":7}"#, "not a string"),
            (r#"{"type":""}"#, "plain file name"),
            (r#"{"type":"../x"}"#, "plain file name"),
            (r#"{"type":".."}"#, "plain file name"),
            // It would break log lines and printed paths.
            (r#"{"type":"a\nb"}"#, "plain file name"),
            (r#"{"type":"x","capabilities":[]}"#, "`capabilities`"),
            (
                r#"{"type":"x","linkerd":{"inbound-ports-to-ignore":["80-"]}}"#,
                "80-",
            ),
            (r#"{"type":"x","evergreen":{"dead-line":1}}"#, "dead-line"),
        ] {
            let error = Entry::from_template(template, Path::new("/k"), Some("mesh")).unwrap_err();
            assert!(format!("{error:#}").contains(reason), "{template}: {error:#}");
        }
    }
}
