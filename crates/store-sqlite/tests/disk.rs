//! Disks that are full or cannot be written. The real ones take a mount, so they run as root on Linux; a bound on the
//! file's size stands in for them elsewhere.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod common;

use common::Temp;
use subagent_model::ErrorCode;
use subagent_store::conformance::Samples;
use subagent_store::{Store, StoreError, audit};
use subagent_store_sqlite::OpenOptions;

/// Commits births until there is no room; says how many went through.
fn fill(store: &impl Store, samples: &mut Samples) -> u32 {
    for number in 0..100_000 {
        let birth = samples.birth();
        let head = store.head().unwrap();
        match store.commit(std::slice::from_ref(&birth)) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, StoreError::Full);
                assert_eq!(error.code(), ErrorCode::StoreFull);
                assert_eq!(store.head().unwrap(), head, "nothing is half-written");
                assert_eq!(store.get(birth.state.id).unwrap(), None);
                assert!(!store.handle_taken(&birth.state.handle).unwrap());
                return number;
            }
        }
    }
    panic!("there is always room");
}

#[test]
fn daemon_16_a_store_at_its_bound_refuses_and_goes_on() {
    let store = Temp::with(&OpenOptions { most_pages: Some(64), ..OpenOptions::default() });
    let mut samples = Samples::default();
    let first = Samples::commit(&*store, samples.birth());
    let written = fill(&*store, &mut samples);
    assert!(written > 10);
    fill(&*store, &mut samples);
    assert_eq!(store.get(first.id).unwrap(), Some(first.clone()));
    assert_eq!(audit(&*store).unwrap().problems, vec![]);
    // There is room again: what is over goes.
    let ended = samples.end(&*store, &first, subagent_model::Outcome::Completed);
    samples.acknowledge(&*store, &ended);
    assert_eq!(store.delete(&[first.id]).unwrap(), 1);
}

#[cfg(target_os = "linux")]
mod mounted {
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
    use subagent_store::conformance::Samples;
    use subagent_store::{Store, StoreError, audit};
    use subagent_store_sqlite::{OpenOptions, SqliteStore};

    /// A small disk, where one may be mounted.
    struct Disk(tempfile::TempDir);

    impl Disk {
        fn new(size: &std::ffi::CStr) -> Option<Self> {
            let dir = tempfile::tempdir().unwrap();
            match mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), size) {
                Ok(()) => Some(Self(dir)),
                Err(error) => {
                    println!("skipped: no disk can be mounted here: {error}");
                    None
                }
            }
        }

        fn path(&self) -> &Path {
            self.0.path()
        }
    }

    impl Drop for Disk {
        fn drop(&mut self) {
            unmount(self.path(), UnmountFlags::DETACH).unwrap();
        }
    }

    #[test]
    fn daemon_16_a_full_disk_refuses_and_recovers() {
        let Some(disk) = Disk::new(c"size=3m") else { return };
        let store = SqliteStore::open(disk.path(), &OpenOptions::default()).unwrap();
        let mut samples = Samples::default();
        let first = Samples::commit(&store, samples.birth());
        let ballast = disk.path().join("ballast");
        let mut file = File::create(&ballast).unwrap();
        while file.write_all(&[1; 4_096]).is_ok() {}
        drop(file);
        for _ in 0..3 {
            super::fill(&store, &mut samples);
        }
        assert_eq!(store.get(first.id).unwrap(), Some(first.clone()));
        assert_eq!(audit(&store).unwrap().problems, vec![]);
        std::fs::remove_file(&ballast).unwrap();
        let claimed = samples.run(&store, &first, &Samples::claim());
        drop(store);
        let store = SqliteStore::open(disk.path(), &OpenOptions::default()).unwrap();
        assert_eq!(store.get(first.id).unwrap(), Some(claimed));
        assert_eq!(audit(&store).unwrap().problems, vec![]);
        assert_eq!(store.check_file().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn daemon_16_a_checkpoint_without_room_loses_nothing() {
        let Some(disk) = Disk::new(c"size=2m") else { return };
        // Checkpoints all the time, in a disk that log and database fill together.
        let options = OpenOptions { checkpoint_pages: 1, ..OpenOptions::default() };
        let store = SqliteStore::open(disk.path(), &options).unwrap();
        let mut samples = Samples::default();
        let written = super::fill(&store, &mut samples);
        assert!(written > 20, "{written}");
        let head = store.head().unwrap();
        assert_eq!(audit(&store).unwrap().problems, vec![]);
        drop(store);
        let store = SqliteStore::open(disk.path(), &options).unwrap();
        assert_eq!(store.head().unwrap(), head);
        assert_eq!(audit(&store).unwrap().problems, vec![]);
    }

    #[test]
    fn daemon_07_a_disk_without_room_for_a_new_store_says_so() {
        let Some(disk) = Disk::new(c"size=16k") else { return };
        assert_eq!(SqliteStore::open(disk.path(), &OpenOptions::default()).unwrap_err(), StoreError::Full);
    }

    #[test]
    fn daemon_07_a_directory_that_cannot_be_written_says_so() {
        let Some(disk) = Disk::new(c"size=8m") else { return };
        mount_remount(disk.path(), MountFlags::RDONLY, c"").unwrap();
        assert_eq!(
            SqliteStore::open(disk.path(), &OpenOptions::default()).unwrap_err(),
            StoreError::ReadOnly
        );
        // With a store in it.
        mount_remount(disk.path(), MountFlags::empty(), c"").unwrap();
        let store = SqliteStore::open(disk.path(), &OpenOptions::default()).unwrap();
        Samples::commit(&store, Samples::default().birth());
        drop(store);
        mount_remount(disk.path(), MountFlags::RDONLY, c"").unwrap();
        let error = SqliteStore::open(disk.path(), &OpenOptions::default()).unwrap_err();
        assert_eq!(error, StoreError::ReadOnly);
        assert_eq!(error.code(), subagent_model::ErrorCode::StoreReadOnly);
        mount_remount(disk.path(), MountFlags::empty(), c"").unwrap();
        let store = SqliteStore::open(disk.path(), &OpenOptions::default()).unwrap();
        assert_eq!(store.head().unwrap().0, 2);
    }
}

#[cfg(unix)]
#[test]
fn daemon_07_a_directory_without_permission_says_so() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        println!("skipped: nothing is forbidden to root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let opened = subagent_store_sqlite::SqliteStore::open(dir.path(), &OpenOptions::default());
    assert_eq!(opened.unwrap_err(), StoreError::ReadOnly);
}
