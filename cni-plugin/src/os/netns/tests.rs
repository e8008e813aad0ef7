use evergreen_test_support::netns::{Namespace, Wire};

use super::*;

#[test]
fn other_files_are_rejected_with_their_kind() {
    let folder = std::env::temp_dir().join(format!("evergreen-netns-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let plain = folder.join("plain");
    fs::write(&plain, "").unwrap();
    let gone = folder.join("gone");
    for (path, words) in [
        (gone.as_path(), "does not exist"),
        (&plain, "is a plain file, not a network namespace"),
        (&folder, "is a directory, not a network namespace"),
        (
            Path::new("/dev/null"),
            "is something else, not a network namespace",
        ),
        (
            Path::new("/proc/self/ns/mnt"),
            "is a namespace, but not a network namespace",
        ),
    ] {
        let error = Netns::open(path).and_then(|netns| netns.run(|| ())).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(words) && text.contains(path.to_str().unwrap()),
            "{text}"
        );
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn own_namespace_is_recognised_by_any_name() {
    for own in ["/proc/self/ns/net", "/proc/thread-self/ns/net"] {
        assert!(Netns::open(Path::new(own)).unwrap().is_own().unwrap(), "{own}");
    }
    let other = Namespace::new();
    assert!(!Netns::open(other.path()).unwrap().is_own().unwrap());
}

#[test]
fn only_the_closure_runs_inside() {
    let here = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let other = Namespace::new();
    let netns = Netns::open(other.path()).unwrap();
    let before = here();
    let inside = netns.run(here).unwrap();
    assert_ne!(inside, before);
    assert_eq!(inside, other.run(here));
    assert_eq!(here(), before);
}

#[test]
fn panic_inside_is_an_error_outside() {
    let other = Namespace::new();
    let netns = Netns::open(other.path()).unwrap();
    let error = netns.run(|| panic!("on purpose")).unwrap_err();
    assert!(error.to_string().contains("on purpose"), "{error}");
}

#[test]
fn families_are_those_of_the_addresses() {
    let families = |namespace: &Namespace, interface: &str| {
        Netns::open(namespace.path())
            .unwrap()
            .families(interface)
            .unwrap()
    };
    let wire = Wire::new();
    assert_eq!(families(&wire.pod, "eth0"), [Family::V4, Family::V6]);
    for (change, left) in [
        ("address del 192.0.2.2/24 dev eth0", vec![Family::V6]),
        ("address del fd77::2/64 dev eth0", vec![]),
        ("address add 192.0.2.2/24 dev eth0", vec![Family::V4]),
    ] {
        wire.pod.ip(change);
        // The link-local address remains and does not count.
        assert_eq!(families(&wire.pod, "eth0"), left, "{change}");
    }
    for none in ["eth1", "", "a-name-longer-than-an-interface-has"] {
        assert_eq!(families(&wire.pod, none), [], "{none:?}");
    }
}
