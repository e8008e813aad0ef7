//! Our object in a conflist, made from the template the chart gives. Pure.

use std::path::Path;

use anyhow::{Context, Result, bail};
use evergreen_cni::protocol::netconf::{
    EXEMPT_BY_DEFAULT, Envelope, KUBECONFIG_PLACEHOLDER, NetConf, POD_ANNOTATIONS,
};
use serde_json::{Map, Value, json};

/// Our entry, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    type_name: String,
    object: Value,
}

impl Entry {
    /// Reads a template, old ones of Linkerd's charts included, and puts in what only the installer knows.
    pub fn from_template(template: &str, kubeconfig: &Path, own_namespace: Option<&str>) -> Result<Self> {
        let value: Value = serde_json::from_str(template).context("the netconf template is not JSON")?;
        let Value::Object(mut object) = value else {
            bail!("the netconf template is not a JSON object")
        };
        let type_name = file_name(object.get("type"))?;
        // Charts before 2024 asked the installer to write a token into it, for every user of the node to read.
        object.remove("policy");
        fill_in(&mut object, &kubeconfig.to_string_lossy());
        ask_for_annotations(&mut object)?;
        if let Some(namespace) = own_namespace {
            exempt(&mut object, namespace)?;
        }
        let object = Value::Object(object);
        plugin_takes(&object)?;
        Ok(Self { type_name, object })
    }

    /// The plugin's file name; also what tells our entry from everybody else's.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// The whole object.
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

/// Replaces the placeholders in every string, and drops the strings that hold one nobody may fill.
fn fill_in(object: &mut Map<String, Value>, kubeconfig: &str) {
    object.retain(|_, value| match value {
        Value::String(text) => {
            *text = text.replace(KUBECONFIG_PLACEHOLDER, kubeconfig);
            // Old: `__SERVICEACCOUNT_TOKEN__`, `__KUBERNETES_SERVICE_HOST__`, `$IPTABLES_MODE`. The plugin needs none.
            !text.contains("__") && !text.starts_with('$')
        }
        Value::Object(inner) => {
            fill_in(inner, kubeconfig);
            true
        }
        _ => true,
    });
}

fn ask_for_annotations(object: &mut Map<String, Value>) -> Result<()> {
    let capabilities = object.entry("capabilities").or_insert_with(|| json!({}));
    let Value::Object(capabilities) = capabilities else {
        bail!("`capabilities` of the netconf template is not an object")
    };
    capabilities.insert(POD_ANNOTATIONS.to_owned(), Value::Bool(true));
    Ok(())
}

/// The installer's own pod must never wait for the credential that it is about to bring.
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

/// Asks the plugin's own reader. What it refuses would fail every pod of the node, the next installer's included, which
/// is the one that would bring the correction.
fn plugin_takes(object: &Value) -> Result<()> {
    let mut call = object.clone();
    // The runtime puts in what the list says.
    call["name"] = json!("network");
    call["cniVersion"] = json!("1.0.0");
    let stdin = call.to_string();
    let refusal = Envelope::read(stdin.as_bytes())
        .and_then(|envelope| NetConf::check(&envelope, envelope.version()?).map(|_| ()))
        .err();
    match refusal {
        Some(why) => bail!("the plugin would refuse the netconf template: {why}"),
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
    fn the_template_gets_its_kubeconfig_and_asks_for_annotations() {
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
    fn old_templates_lose_what_must_not_be_written() {
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
    fn the_installers_own_namespace_is_exempt() {
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
    fn a_template_that_cannot_be_right_is_refused_with_the_reason() {
        for (template, reason) in [
            ("", "not JSON"),
            ("{bad", "not JSON"),
            ("[]", "not a JSON object"),
            ("{}", "no `type`"),
            (r#"{"type":7}"#, "not a string"),
            (r#"{"type":""}"#, "plain file name"),
            (r#"{"type":"../x"}"#, "plain file name"),
            (r#"{"type":".."}"#, "plain file name"),
            // It would break the log's lines, and every path that is printed.
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
