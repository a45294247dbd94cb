//! Where `clone3` is refused, as on old kernels and in some containers, the portable way of starting a
//! child keeps all promises. The refusal is made by a filter on this thread and all it starts.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use subagent_process::{Containment, StartError, StartStage};
use support::{World, exit, graces, members, output_holds};

/// From now on `clone3` fails with ENOSYS in this thread and in everything it starts.
#[allow(unsafe_code)]
fn refuse_clone3() {
    let load = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let compare = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: u32::try_from(libc::SYS_clone3).unwrap() };
    let refuse = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOSYS.unsigned_abs() };
    let allow = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    let mut program = [load, compare, refuse, allow];
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: the filter and its program are live for the call; the kernel copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const filter, 0, 0), 0);
    }
}

fn run(containment: Containment) {
    // A thread of its own: the filter must not reach other tests of this process.
    std::thread::spawn(move || {
        refuse_clone3();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(World::new(containment)));
    })
    .join()
    .unwrap();
}

async fn check(world: World) {
    let shim = world.launcher.launch().await.unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", shim.identity().pid)).unwrap();
    assert!(status.contains("Seccomp:\t2"), "the filter must reach the shim");
    shim.start(world.script("1", "cat /proc/self/cgroup; ls /proc/self/fd | tr '\\n' ' '; exit 7"))
        .await
        .unwrap();
    assert_eq!(exit(&shim).await.exit_code, Some(7));
    let text = support::stdout_text(&world.attempt_dir("1"));
    if let Some(group) = shim.cgroup() {
        assert!(text.contains(group.file_name().unwrap().to_str().unwrap()), "{text}");
    }
    assert!(text.ends_with("0 1 2 3 "), "{text}");
    shim.release().unwrap();

    let script = world.path("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let Err(StartError::Failed(failure)) = shim.start(world.job("2", script.to_str().unwrap())).await else {
        panic!("it was started")
    };
    assert_eq!((failure.stage, failure.errno), (StartStage::Exec, libc::ENOENT));

    shim.start(world.script("3", "setsid sleep 600 & echo ready; sleep 600")).await.unwrap();
    output_holds(&world.attempt_dir("3"), "ready").await;
    shim.stop(graces(2_000, 5_000)).unwrap();
    assert!(exit(&shim).await.tree_gone);
    assert!(members(&world.key("3")).is_empty());
}

#[test]
fn with_a_control_group() {
    run(Containment::Auto);
}

#[test]
fn by_walking() {
    run(Containment::Walk);
}
