//! Block 5: stdin, its keys and its `cniVersion`, checked before the command.

use serde_json::{Value, json};

use super::{Block, call, conf, failure};

#[test]
fn block_5_stdin_is_checked_before_the_command() {
    let mut block = Block("stdin", 0);
    for verb in ["ADD", "DEL", "CHECK", "GC", "STATUS", "FOO"] {
        for stdin in ["", "{", "[]", "\"x\"", "7", r#"{"name":7}"#, r#"{"name":"n"} x"#] {
            let (code, message, _) = failure(&call(verb).stdin(stdin));
            assert_eq!(code, 6, "{verb} {stdin:?}");
            assert!(
                message.starts_with("error unmarshall network config: "),
                "{verb} {stdin:?}: {message}"
            );
            block.case();
        }
        for stdin in ["null", "{}", r#"{"name":""}"#] {
            let expected = (7, "missing network name".to_owned(), String::new());
            assert_eq!(failure(&call(verb).stdin(stdin)), expected, "{verb} {stdin:?}");
            block.case();
        }
        let expected = (
            7,
            "invalid characters found in network name".to_owned(),
            "a b".to_owned(),
        );
        assert_eq!(
            failure(&call(verb).stdin(r#"{"name":"a b"}"#)),
            expected,
            "{verb}"
        );
        block.case();
    }
}

#[test]
fn block_5_keys_are_case_insensitive() {
    let mut block = Block("keys in another case", 0);
    let call = call("ADD").stdin(
        r#"{"NAME":"net","CNIVERSION":"0.4.0","Kubernetes":{"KubeConfig":"/x"},"Linkerd":{"Ports-To-Redirect":null},
            "Evergreen":{"Ask-API":"always"},"prevresult":{"cniVersion":"0.4.0","x":1}}"#,
    );
    let result = json!({"cniVersion": "0.4.0", "x": 1});
    assert_eq!(call.succeed().unwrap().unwrap(), result);
    block.case();
    for (stdin, expected) in [
        // Of two keys that differ only in case the last one wins.
        (r#"{"name":"a b","NAME":"net","cniVersion":"9"}"#, 1),
        (r#"{"NAME":"net","name":"a b","cniVersion":"9"}"#, 7),
        (r#"{"name":"net","Linkerd":{"Proxy-UID":"x"}}"#, 7),
        (r#"{"name":"net","evergreen":{"ASK-NOBODY":1}}"#, 7),
    ] {
        let (code, message, _) = failure(&call.clone().stdin(stdin));
        assert_eq!(code, expected, "{stdin}: {message}");
        block.case();
    }
}

#[test]
fn block_5_versions_are_checked_like_the_reference() {
    let mut block = Block("cniVersion", 0);
    let with = |verb: &str, version: Value| {
        let mut conf = conf("");
        conf["cniVersion"] = version;
        call(verb).netconf(&conf)
    };
    for verb in ["ADD", "DEL"] {
        for version in ["1.0", "0.5.0", "1.2.0", "abc", "2.0.0"] {
            let (code, message, details) = failure(&with(verb, json!(version)));
            assert_eq!(
                (code, &*message),
                (1, "incompatible CNI versions"),
                "{verb} {version}"
            );
            assert!(
                details.starts_with(&format!("config is \"{version}\", plugin supports [\"0.1.0\" ")),
                "{details}"
            );
            block.case();
        }
        assert_eq!(failure(&with(verb, json!(1))).0, 6, "{verb}: a number");
        for version in [Value::Null, json!("")] {
            let reply = with(verb, version).run().unwrap();
            assert_eq!(reply.exit_code, Some(0), "{verb}: {reply:?}");
        }
        block.case();
    }
    for (verb, too_old, fine) in [
        ("CHECK", &["", "0.1.0", "0.2.0", "0.3.0", "0.3.1"][..], "1.2.0"),
        ("GC", &["", "0.4.0", "1.0.0"], "1.2.0"),
        ("STATUS", &["", "0.4.0", "1.0.0"], "1.2.0"),
    ] {
        for version in too_old {
            let expected = (1, format!("config version does not allow {verb}"), String::new());
            assert_eq!(failure(&with(verb, json!(version))), expected, "{version}");
            block.case();
        }
        assert_eq!(failure(&with(verb, json!("abc"))).0, 6, "{verb}");
        assert_eq!(
            failure(&with(verb, json!(fine))).0,
            1,
            "{verb}: a version of the future"
        );
        block.case();
    }
    assert_eq!(
        failure(&with("CHECK", json!("0.4.1"))).1,
        "incompatible CNI versions"
    );
}
