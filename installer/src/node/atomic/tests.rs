use super::*;
use crate::scratch::Scratch;

#[test]
fn a_file_is_replaced_with_its_mode_and_nothing_is_left_beside_it() {
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
fn a_file_that_is_refused_leaves_the_old_one() {
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
fn what_somebody_has_written_meanwhile_is_not_lost() {
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
fn leftovers_are_swept_and_work_in_progress_is_not() {
    let dir = Scratch::new();
    let dead = dir.path().join(".10-x.conflist.1-1-0.evergreen-tmp");
    fs::write(&dead, "half").unwrap();
    let living = Temporary::beside(&dir.path().join("10-x.conflist")).unwrap();
    fs::write(dir.path().join("10-x.conflist.tmp"), "somebody else's").unwrap();
    assert_eq!(sweep(dir.path()), [dead]);
    assert!(living.path.exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn no_runtime_loads_a_temporary_file() {
    let name = temporary_name(OsStr::new("10-x.conflist"));
    assert_eq!(Path::new(&name).extension(), Some(OsStr::new("evergreen-tmp")));
}

#[test]
fn a_large_file_is_written_in_large_pieces() {
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
    assert_eq!(source.1, 5, "four pieces and the end");
    assert!(fs::read(&target).unwrap() == content);
}
