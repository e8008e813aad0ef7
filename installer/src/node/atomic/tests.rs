use super::*;
use crate::scratch::Scratch;

#[test]
fn replaced_file_keeps_its_mode() {
    let dir = Scratch::new();
    let target = dir.path().join("10-x.conflist");
    fs::write(&target, "old").unwrap();
    fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
    replace(&target, b"new", Access::As(&target)).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"new");
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn refused_file_leaves_the_old_one() {
    let dir = Scratch::new();
    let target = dir.path().join("plugin");
    fs::write(&target, "old").unwrap();
    let refused = replace_checked(&target, &b"new"[..], Access::Mode(0o755), |temporary| {
        assert_eq!(fs::metadata(temporary)?.mode() & 0o7777, 0o755);
        anyhow::bail!("no")
    });
    assert_eq!(refused.unwrap_err().to_string(), "no");
    assert_eq!(fs::read(&target).unwrap(), b"old");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn file_written_meanwhile_is_kept() {
    let dir = Scratch::new();
    let target = dir.path().join("10-x.conflist");
    fs::write(&target, "theirs").unwrap();
    assert!(!replace_if_unchanged(&target, &target, b"what we saw", b"ours").unwrap());
    assert_eq!(fs::read(&target).unwrap(), b"theirs");
    assert!(!remove_if_unchanged(&target, &target, b"what we saw").unwrap());
    assert!(replace_if_unchanged(&target, &target, b"theirs", b"ours").unwrap());
    assert_eq!(fs::read(&target).unwrap(), b"ours");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(remove_if_unchanged(&target, &target, b"ours").unwrap() && !target.exists());
    assert!(
        remove_if_unchanged(&target, &target, b"ours").unwrap(),
        "it is gone, as wanted"
    );
}

#[test]
fn sweep_keeps_files_in_use() {
    let dir = Scratch::new();
    let dead = dir.path().join(".10-x.conflist.1-1-0.evergreen-tmp");
    fs::write(&dead, "half").unwrap();
    let (living, _locked) = Temporary::create(&dir.path().join("10-x.conflist")).unwrap();
    fs::write(dir.path().join("10-x.conflist.tmp"), "a neighbour's").unwrap();
    assert_eq!(sweep(dir.path()), [dead.file_name().unwrap()]);
    assert!(living.path.exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn no_runtime_loads_temporary_files() {
    let path = temporary_path(Path::new("/etc/cni/net.d/10-x.conflist"));
    assert_eq!(path.extension(), Some(OsStr::new("evergreen-tmp")));
}

#[test]
fn large_file_is_written_in_large_chunks() {
    /// Counts how often it is asked.
    struct Asked<'a>(&'a [u8], usize);
    impl Read for Asked<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            self.0.read(buffer)
        }
    }
    let dir = Scratch::new();
    let target = dir.path().join("plugin");
    let content = vec![7; 1 << 20];
    let mut source = Asked(&content, 0);
    replace_checked(&target, &mut source, Access::Mode(0o755), |_| Ok(())).unwrap();
    assert_eq!(source.1, 5, "four chunks and the end");
    assert!(fs::read(&target).unwrap() == content);
}
