//! The installer killed at every system call that changes the node: afterwards libcni still starts and stops a pod,
//! and one more run repairs everything.
//!
//! `strace` lists the calls of an undisturbed run, then kills one run at the entry of each call, so that every state
//! between two calls is tested. `cnitool` is libcni's own tool.

mod scenarios;

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Output,
    sync::Mutex,
    thread,
    time::Duration,
};

use evergreen_test_support::{
    run::{cnitool, with_cni_cache},
    strace::straced,
};

use self::scenarios::{SCENARIOS, Scenario, node};
use crate::node::Node;

const CHANGING: [&str; 16] = [
    "openat",
    "write",
    "fchmod",
    "fchown",
    "fsetxattr",
    "fsync",
    "rename",
    "renameat",
    "renameat2",
    "symlink",
    "symlinkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
];

#[test]
fn kill_at_any_call_keeps_network_working() {
    let cnitool = cnitool("cnitool", "v1.3.0");
    let points = Mutex::new(Vec::new());
    for (i, scenario) in SCENARIOS.iter().enumerate() {
        let found = kill_points(scenario);
        assert!(found.len() > 5, "{}: only {found:?}", scenario.name);
        points
            .lock()
            .unwrap()
            .extend(found.into_iter().map(|point| (i, point)));
    }
    let total = points.lock().unwrap().len();
    let right: Vec<_> = SCENARIOS.iter().map(undisturbed).collect();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = points.lock().unwrap().pop();
                    let Some((i, (call, count))) = next else { break };
                    kill_and_check(&cnitool, &SCENARIOS[i], &call, count, &right[i]);
                }
            });
        }
    });
    let said = format!(
        "crash matrix: {total} kill points in {} scenarios\n",
        SCENARIOS.len()
    );
    std::io::stderr().write_all(said.as_bytes()).unwrap();
}

type Files = BTreeMap<PathBuf, (u32, String)>;

/// Returns the node's files after an undisturbed run.
fn undisturbed(scenario: &Scenario) -> Files {
    let node = node();
    (scenario.before)(&node);
    node.succeed(&[scenario.command]);
    comparable(&node)
}

/// Returns every call that changes the node, with its number among the calls of the same name.
fn kill_points(scenario: &Scenario) -> Vec<(String, usize)> {
    let node = node();
    (scenario.before)(&node);
    let output = traced(&node, scenario, &format!("trace={}", CHANGING.join(",")));
    assert!(
        output.status.success(),
        "{}: {}",
        scenario.name,
        String::from_utf8_lossy(&output.stderr)
    );
    let (mut counts, mut points) = (BTreeMap::<String, usize>::new(), Vec::new());
    let text = fs::read_to_string(node.path("trace")).unwrap();
    // The first line is the installer's; the plugin it runs has another process ID.
    let pid = text.split(' ').next().unwrap();
    for line in text.lines().filter_map(|l| l.strip_prefix(pid)) {
        let Some((call, arguments)) = line.trim().split_once('(') else {
            continue;
        };
        let count = counts.entry(call.to_owned()).or_default();
        *count += 1;
        let changes = match call {
            "openat" => arguments.contains("O_CREAT"),
            "write" => !arguments.starts_with("2,"),
            _ => true,
        };
        if changes {
            points.push((call.to_owned(), *count));
        }
    }
    points
}

fn kill_and_check(cnitool: &Path, scenario: &Scenario, call: &str, count: usize, right: &Files) {
    let node = node();
    (scenario.before)(&node);
    let what = format!("{}: killed at {call} number {count}", scenario.name);
    let inject = format!("inject={call}:signal=SIGKILL:when={count}");
    let output = traced(&node, scenario, &inject);
    assert_eq!(
        output.status.signal(),
        Some(9),
        "{what}: {} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    for verb in ["add", "del"].into_iter().filter(|_| scenario.works) {
        let (worked, said) = pod(cnitool, &node, verb);
        assert!(worked, "{what}: then {verb} fails: {said}\n{}", node.show());
    }
    node.succeed(&[scenario.command]);
    let left = comparable(&node);
    assert!(
        left == *right,
        "{what}: one more run does not repair it:\n{left:#?}\nwanted\n{right:#?}"
    );
}

fn traced(node: &Node, scenario: &Scenario, expression: &str) -> Output {
    straced(
        &node.path("trace"),
        &["-e", expression],
        &node.command(&[scenario.command]),
    )
    .output()
    .expect("strace is installed")
}

/// Runs the network for a pod; returns whether it succeeded and its output.
fn pod(cnitool: &Path, node: &Node, verb: &str) -> (bool, String) {
    loop {
        let output = start_pod(cnitool, node, verb);
        let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        let said = text.concat();
        // A process just forked by another thread may still hold this thread's new plugins open for
        // writing, until it calls exec.
        if !said.contains("text file busy") {
            return (output.status.success(), said);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn start_pod(cnitool: &Path, node: &Node, verb: &str) -> Output {
    let (netns, cache) = (node.path("netns"), node.path("cache"));
    fs::create_dir_all(&cache).unwrap();
    with_cni_cache(&cache, cnitool)
        .args([verb, "k8s-pod-network", netns.to_str().unwrap()])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("NETCONFPATH", node.net(""))
        .env("CNI_PATH", node.bin(""))
        .env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=c;K8S_POD_UID=u")
        .env("CAP_ARGS", r#"{"io.kubernetes.cri.pod-annotations":{"kubernetes.io/config.source":"api"}}"#)
        .output()
        .unwrap()
}

/// Returns the files below the node's root, without values that differ between nodes.
fn comparable(node: &Node) -> Files {
    let root = node.path("");
    let root = root.to_str().unwrap().trim_end_matches('/');
    let files = node.snapshot().into_iter().map(|(path, (mode, content))| {
        let path = path.strip_prefix(root).unwrap().to_path_buf();
        let text = String::from_utf8_lossy(&content).replace(root, "ROOT");
        (path, (mode, text))
    });
    files.collect()
}
