//! The CNI specification: the cases of the reference library's own tests, for all commands and versions. Blocks 1 to 6
//! are common to all commands; `commands` has blocks 7 to 14, `chains` block 15, and `kill` covers interrupted calls.

mod commands;
mod network_configuration;

use evergreen_test_support::run::{CniCall, CniReply};
use serde_json::{Value, json};

use crate::node::{PLUGIN, report};

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// Counts the cases of a block and reports the count.
struct Block(&'static str, usize);

impl Block {
    fn case(&mut self) {
        self.1 += 1;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        report(&format!("conformance: {}: {} cases", self.0, self.1));
    }
}

fn conf(version: &str) -> Value {
    json!({"name": "net", "type": "evergreen-cni", "cniVersion": version,
           "kubernetes": {"kubeconfig": "/nowhere/kubeconfig"}})
}

fn call(verb: &str) -> CniCall {
    CniCall::new(PLUGIN, verb, "/nowhere/netns").netconf(&conf("1.1.0"))
}

/// Asserts a failure and returns its code, message and details.
#[track_caller]
fn failure(call: &CniCall) -> (u64, String, String) {
    let error = call.fail().expect("a failure");
    let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    (
        error["code"].as_u64().expect("a code"),
        text("msg"),
        text("details"),
    )
}

#[track_caller]
fn silent(reply: &CniReply) {
    assert_eq!((reply.exit_code, &*reply.stdout), (Some(0), ""), "{reply:?}");
}

#[test]
fn block_1_no_command_prints_the_version() {
    let mut block = Block("bare call", 0);
    for call in [
        CniCall::bare(PLUGIN),
        CniCall::bare(PLUGIN).env("CNI_COMMAND", ""),
        call("ADD").without("CNI_COMMAND"),
    ] {
        let reply = call.run().unwrap();
        silent(&reply);
        assert!(
            reply.stderr.starts_with("CNI plugin evergreen-cni v"),
            "{reply:?}"
        );
        assert!(
            reply.stderr.contains(&format!(
                "CNI protocol versions supported: {}\n",
                VERSIONS.join(", ")
            )),
            "{reply:?}"
        );
        block.case();
    }
}

#[test]
fn block_2_version_ignores_stdin_and_environment() {
    let mut block = Block("VERSION", 0);
    let dummy = call("VERSION")
        .env("CNI_NETNS", "dummy")
        .env("CNI_IFNAME", "dummy")
        .env("CNI_PATH", "dummy");
    for call in [
        call("VERSION"),
        call("VERSION").stdin(""),
        call("VERSION").stdin("junk"),
        dummy.stdin(r#"{"cniVersion":"1.1.0"}"#),
        CniCall::bare(PLUGIN).env("CNI_COMMAND", "VERSION"),
    ] {
        let answer = call.succeed().unwrap().unwrap();
        assert_eq!(
            answer,
            json!({"cniVersion": "1.1.0", "supportedVersions": VERSIONS})
        );
        block.case();
    }
    // The answer does not wait for stdin to be closed.
    let mut child = call("VERSION").command_under(&[]).spawn().unwrap();
    let held_open = child.stdin.take();
    assert!(child.wait().unwrap().success());
    drop(held_open);
    block.case();
}

#[test]
fn block_3_missing_variables_are_named_together() {
    let mut block = Block("required variables", 0);
    let all = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"];
    for (verb, required) in [
        ("ADD", &all[..]),
        ("CHECK", &all),
        ("DEL", &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"]),
        ("GC", &["CNI_PATH"]),
        ("STATUS", &["CNI_PATH"]),
    ] {
        for missing in required.iter().map(|one| vec![*one]).chain([required.to_vec()]) {
            for absent in [true, false] {
                let stripped = missing.iter().fold(call(verb), |call, name| {
                    if absent {
                        call.without(name)
                    } else {
                        call.env(name, "")
                    }
                });
                let expected = format!("required env variables [{}] missing", missing.join(","));
                assert_eq!(failure(&stripped), (4, expected, String::new()), "{verb}");
                block.case();
            }
        }
    }
    let bare = |verb| {
        all.iter()
            .fold(call(verb), |call, name| call.env(name, ""))
            .env("CNI_PATH", "/x")
    };
    for verb in ["GC", "STATUS"] {
        silent(&bare(verb).run().unwrap());
        block.case();
    }
    silent(&call("DEL").env("CNI_NETNS", "").run().unwrap());
    block.case();
}

#[test]
fn block_4_names_are_checked_like_the_reference() {
    let mut block = Block("container IDs and interface names", 0);
    for id in ["-a", "a b", "a%", "a\n", ".a", "ä"] {
        let expected = (4, "invalid characters in containerID".to_owned(), id.to_owned());
        assert_eq!(failure(&call("DEL").env("CNI_CONTAINERID", id)), expected);
        block.case();
    }
    let long = "interface name is too long";
    let odd = "interface name contains / or : or whitespace characters";
    for (name, message) in [
        ("sixteen-letters-", long),
        (".", "interface name is . or .."),
        ("..", "interface name is . or .."),
        ("a/b", odd),
        ("a:b", odd),
        ("a b", odd),
        ("a\tb", odd),
        ("a\u{a0}b", odd),
    ] {
        let (code, said, _) = failure(&call("DEL").env("CNI_IFNAME", name));
        assert_eq!((code, &*said), (4, message), "{name:?}");
        block.case();
    }
    for fine in [
        call("DEL").env("CNI_CONTAINERID", "a".repeat(300)),
        call("DEL").env("CNI_IFNAME", "fifteen-letters"),
    ] {
        silent(&fine.run().unwrap());
        block.case();
    }
    // Variables that a command does not require are not checked.
    silent(
        &call("STATUS")
            .env("CNI_CONTAINERID", "-a")
            .env("CNI_IFNAME", "a/b")
            .run()
            .unwrap(),
    );
    block.case();
}

#[test]
fn block_6_unknown_command_is_named() {
    let mut block = Block("unknown commands", 0);
    for verb in ["FOO", "add", "ADD ", "DELETE"] {
        assert_eq!(
            failure(&call(verb)),
            (4, format!("unknown CNI_COMMAND: {verb}"), String::new())
        );
        block.case();
    }
}
