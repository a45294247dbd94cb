//! One attempt from start to exit: codes, signals, refusals, environment, descriptors, input.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::{Duration, Instant};

use subagent_process::{
    Containment, ExitCause, Resource, ResourceLimit, ShimError, StartError, StartFailure, StartJob,
    StartStage, StdinSource, exit_record,
};
use support::{World, eventually, exit, graces, piped, stdout, stdout_text};

async fn refused(world: &World, job: StartJob) -> StartFailure {
    let shim = world.launcher.launch().await.unwrap();
    let Err(StartError::Failed(failure)) = shim.start(job).await else { panic!("it was started") };
    // The shim is usable again, and no zombie is left of the attempt to exec.
    let again = world.script(&format!("again-{}", failure.stage.as_str()), "exit 3");
    shim.start(again).await.unwrap();
    assert_eq!(exit(&shim).await.exit_code, Some(3));
    failure
}

#[tokio::test]
async fn exit_code_and_output_come_back() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let started = shim.start(world.script("1", "echo out; echo err >&2; exit 7")).await.unwrap();
    let record = exit(&shim).await;
    assert_eq!((record.exit_code, record.signal, record.cause), (Some(7), None, ExitCause::Natural));
    assert_eq!(record.process, Some(started.process));
    assert!(record.tree_gone);
    assert_eq!((record.stdout_bytes, record.stderr_bytes, record.leftover_killed), (4, 4, 0));
    assert!(record.ended_at_micros >= record.started_at_micros && record.usage.max_rss_bytes > 0);
    assert_eq!(stdout_text(&world.attempt_dir("1")), "out\n");
    assert_eq!(exit_record::read(&world.attempt_dir("1")).unwrap().unwrap(), record);
}

#[tokio::test]
async fn proc_01_an_unusable_directory_is_one_clear_refusal() {
    let world = World::new(Containment::Auto);
    let file = world.path("file");
    std::fs::write(&file, "").unwrap();
    let missing = world.path("missing");
    for (name, cwd) in [
        ("missing", missing.to_str().unwrap()),
        ("file", file.to_str().unwrap()),
        ("relative", "some/where"),
        ("empty", ""),
    ] {
        let world = World::new(Containment::Auto);
        let mut job = world.script(name, "true");
        cwd.clone_into(&mut job.cwd);
        let failure = refused(&world, job).await;
        assert_eq!(failure.stage, StartStage::Cwd, "{name}: {failure:?}");
        assert!(failure.message.contains("directory"), "{failure:?}");
        let record = exit_record::read(&world.attempt_dir(name)).unwrap().unwrap();
        assert_eq!((record.cause, record.start_failure), (ExitCause::StartFailed, Some(failure)));
    }
}

#[tokio::test]
async fn proc_04_a_missing_program_is_named_and_nothing_else_is_taken() {
    let world = World::new(Containment::Auto);
    let failure = refused(&world, world.job("name", "no-such-program-here")).await;
    assert_eq!((failure.stage, failure.errno), (StartStage::Program, libc::ENOENT));
    assert!(failure.message.contains("no-such-program-here"), "{failure:?}");

    let world = World::new(Containment::Auto);
    let failure = refused(&world, world.job("path", "/nowhere/agent")).await;
    assert_eq!((failure.stage, failure.errno), (StartStage::Program, libc::ENOENT));
    assert!(failure.message.contains("/nowhere/agent"), "{failure:?}");

    let world = World::new(Containment::Auto);
    let plain = world.path("plain");
    std::fs::write(&plain, "text").unwrap();
    let failure = refused(&world, world.job("mode", plain.to_str().unwrap())).await;
    assert_eq!((failure.stage, failure.errno), (StartStage::Program, libc::EACCES));

    // A program whose interpreter is missing is there, but cannot run.
    let world = World::new(Containment::Auto);
    let script = world.path("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let failure = refused(&world, world.job("interpreter", script.to_str().unwrap())).await;
    assert_eq!((failure.stage, failure.errno), (StartStage::Exec, libc::ENOENT));
    assert!(failure.message.contains("interpreter"), "{failure:?}");
}

#[tokio::test]
async fn a_name_is_looked_up_in_the_path_of_the_child() {
    let world = World::new(Containment::Auto);
    let bin = world.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let tool = bin.join("my-tool");
    std::fs::write(&tool, "#!/bin/sh\necho \"$0\"\n").unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let shim = world.launcher.launch().await.unwrap();
    let mut job = world.job("1", "my-tool");
    job.env.insert("PATH".to_owned(), format!("relative:{}", bin.display()));
    shim.start(job).await.unwrap();
    assert_eq!(exit(&shim).await.exit_code, Some(0));
    assert_eq!(stdout_text(&world.attempt_dir("1")).trim(), tool.to_str().unwrap());
}

#[tokio::test]
async fn an_attempt_never_runs_twice() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", "exit 5")).await.unwrap();
    assert_eq!(exit(&shim).await.exit_code, Some(5));
    assert!(matches!(shim.start(world.script("2", "true")).await, Err(StartError::Busy)));
    let other = world.launcher.launch().await.unwrap();
    let Err(StartError::Failed(failure)) = other.start(world.script("1", "touch ran")).await else {
        panic!()
    };
    assert_eq!((failure.stage, failure.errno), (StartStage::Log, libc::EEXIST));
    assert!(!world.path("ran").exists());
    assert_eq!(exit_record::read(&world.attempt_dir("1")).unwrap().unwrap().exit_code, Some(5));
}

#[tokio::test]
async fn proc_02_the_environment_is_exactly_what_was_given() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let mut job = world.job("1", "/usr/bin/env");
    job.env.insert("ODD".to_owned(), "a=b \"c\"\nd".to_owned());
    shim.start(job).await.unwrap();
    exit(&shim).await;
    let expected =
        format!("ODD=a=b \"c\"\nd\nPATH=/usr/local/bin:/usr/bin:/bin\nSUBAGENT_ATTEMPT={}\n", world.key("1"));
    assert_eq!(stdout_text(&world.attempt_dir("1")), expected);
}

#[tokio::test]
async fn proc_03_values_and_arguments_are_in_no_record() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let mut job = world.script("1", "exit 0");
    job.args.push("argument-secret".to_owned());
    job.env.insert("TOKEN".to_owned(), "value-secret".to_owned());
    shim.start(job).await.unwrap();
    exit(&shim).await;
    let mut bad = world.job("2", "/nowhere");
    bad.args.push("argument-secret".to_owned());
    bad.env.insert("TOKEN".to_owned(), "value-secret".to_owned());
    shim.release().unwrap();
    assert!(shim.start(bad).await.is_err());
    shim.status().await.unwrap();
    for key in ["1", "2"] {
        for entry in std::fs::read_dir(world.attempt_dir(key)).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("secret"));
        }
    }
    let cmdline = std::fs::read(format!("/proc/{}/cmdline", shim.identity().pid)).unwrap();
    assert!(!String::from_utf8_lossy(&cmdline).contains("secret"));
    let environ = std::fs::read(format!("/proc/{}/environ", shim.identity().pid)).unwrap();
    assert!(environ.is_empty());
}

#[tokio::test]
async fn proc_05_a_large_input_arrives_unchanged_and_nothing_waits_for_it() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let mut input = b"-n --help \"quoted\"\n'line'\0\xff".to_vec();
    input.extend((0..6_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8));
    std::fs::write(world.path("expected"), &input).unwrap();
    shim.start(piped(world.script("1", "sleep 1; cat > got; cmp got expected && echo same"))).await.unwrap();
    let begin = Instant::now();
    shim.write_stdin(&input).await.unwrap();
    shim.close_stdin().unwrap();
    let status = shim.status().await.unwrap();
    assert!(begin.elapsed() < Duration::from_millis(900), "{:?}", begin.elapsed());
    assert!(status.stdin_pending > 5_000_000, "{status:?}");
    assert_eq!(exit(&shim).await.exit_code, Some(0));
    assert_eq!(stdout_text(&world.attempt_dir("1")), "same\n");
}

#[tokio::test]
async fn ten_megabytes_to_a_stopped_child_delay_nothing() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let started = shim.start(piped(world.script("1", "exec cat"))).await.unwrap();
    shim.signal(libc::SIGSTOP).unwrap();
    let begin = Instant::now();
    shim.write_stdin(&vec![b'x'; 10_000_000]).await.unwrap();
    shim.status().await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let memory = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", shim.identity().pid)).unwrap();
    let private = memory.lines().find(|line| line.starts_with("Anonymous:")).unwrap();
    let kilobytes: u64 = private.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kilobytes < 1024, "the shim holds {kilobytes} kB");
    assert!(support::alive(started.process.pid));
    shim.stop(graces(200, 5_000)).unwrap();
    let record = exit(&shim).await;
    assert_eq!(record.cause, ExitCause::Stopped);
    // It went on for its SIGTERM instead of being killed while stopped.
    assert_eq!(record.signal, Some(libc::SIGTERM));
}

#[tokio::test]
async fn proc_06_no_descriptor_but_the_streams_and_no_terminal() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let script = "ls /proc/self/fd | tr '\\n' ' '; (: < /dev/tty) 2>/dev/null && echo tty || echo none; \
                  cut -d' ' -f6 /proc/$$/stat; echo $$; umask";
    shim.start(world.script("1", script)).await.unwrap();
    exit(&shim).await;
    let text = stdout_text(&world.attempt_dir("1"));
    // `ls` itself holds one more while it reads the directory.
    assert!(text.starts_with("0 1 2 3 none\n"), "{text}");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[1], lines[2], "the child leads its own session: {text}");
    assert_eq!(lines[3], "0022");

    // Not through a shell, which blocks signals of its own while it waits.
    shim.release().unwrap();
    let mut job = world.job("2", "grep");
    job.args = ["-E", "Sig(Blk|Ign)", "/proc/self/status"].map(str::to_owned).to_vec();
    shim.start(job).await.unwrap();
    exit(&shim).await;
    let none = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n";
    assert_eq!(stdout_text(&world.attempt_dir("2")), none);
}

#[test]
fn proc_07_a_start_from_a_thread_that_ends_at_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = World::new(Containment::Auto);
    let launcher = world.launcher.clone();
    let job = world.script("1", "sleep 0.3; echo lived");
    let handle = runtime.handle().clone();
    let shim = std::thread::spawn(move || {
        handle.block_on(async {
            let shim = launcher.launch().await.unwrap();
            shim.start(job).await.unwrap();
            shim
        })
    })
    .join()
    .unwrap();
    runtime.block_on(async {
        assert_eq!(exit(&shim).await.exit_code, Some(0));
        assert_eq!(stdout_text(&world.attempt_dir("1")), "lived\n");
    });
}

#[tokio::test]
async fn proc_08_an_exit_at_once_leaves_the_end_of_its_errors() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", "echo usage: agent >&2; exit 64")).await.unwrap();
    assert_eq!(exit(&shim).await.exit_code, Some(64));
    let dir = world.attempt_dir("1");
    let text = subagent_process::log::read_stream(&dir, subagent_core::frame::Kind::Stderr, 0, 6).unwrap();
    assert_eq!((text.tail.as_slice(), text.omitted), (&b"agent\n"[..], 7));
}

#[tokio::test]
async fn proc_10_output_before_the_exit_is_there_when_the_exit_is() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    for round in 0..30 {
        let key = round.to_string();
        shim.start(world.script(&key, "head -c 200000 /dev/zero; echo final message")).await.unwrap();
        let record = exit(&shim).await;
        assert_eq!(record.stdout_bytes, 200_014);
        assert!(stdout(&world.attempt_dir(&key)).ends_with(b"final message\n"));
        assert!(*shim.log_end().borrow() >= record.log_end);
        shim.release().unwrap();
    }
}

#[tokio::test]
async fn proc_12_code_and_signal_are_independent() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", "kill -SEGV $$")).await.unwrap();
    let record = exit(&shim).await;
    assert_eq!((record.exit_code, record.signal), (None, Some(libc::SIGSEGV)));
    assert_eq!(record.cause, ExitCause::Natural);
}

#[tokio::test]
async fn proc_16_a_kill_from_outside_is_seen_at_once() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let started = shim.start(world.job("1", "/bin/cat")).await;
    // Null input: cat ends by itself; a child that waits is needed.
    started.unwrap();
    exit(&shim).await;
    shim.release().unwrap();
    let started = shim.start(world.script("2", "exec sleep 60")).await.unwrap();
    let begin = Instant::now();
    assert!(subagent_process::signal_checked(&started.process, libc::SIGKILL).unwrap());
    let record = exit(&shim).await;
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    assert_eq!((record.signal, record.cause), (Some(libc::SIGKILL), ExitCause::Natural));
}

#[tokio::test]
async fn bytes_that_are_not_text_are_kept() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(world.script("1", r"printf '\000\377\376a\365Z\245\036\n\303'")).await.unwrap();
    exit(&shim).await;
    assert_eq!(stdout(&world.attempt_dir("1")), b"\0\xff\xfea\xf5Z\xa5\x1e\n\xc3");
}

#[tokio::test]
async fn input_from_a_file_and_a_missing_one() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let file = world.path("input");
    std::fs::write(&file, "from a file").unwrap();
    let mut job = world.job("1", "/bin/cat");
    job.stdin = StdinSource::File(file.to_str().unwrap().to_owned());
    shim.start(job.clone()).await.unwrap();
    exit(&shim).await;
    assert_eq!(stdout_text(&world.attempt_dir("1")), "from a file");
    shim.release().unwrap();
    job.attempt = world.key("2");
    job.dir = world.attempt_dir("2").to_str().unwrap().to_owned();
    job.stdin = StdinSource::File("/nowhere/input".to_owned());
    let Err(StartError::Failed(failure)) = shim.start(job).await else { panic!() };
    assert_eq!(failure.stage, StartStage::Stdin);
}

#[tokio::test]
async fn a_conversation_over_the_input_and_its_end() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(piped(world.script("1", "while read line; do echo \"got $line\"; done; echo end")))
        .await
        .unwrap();
    let dir = world.attempt_dir("1");
    for word in ["one", "two", "three"] {
        shim.write_stdin(format!("{word}\n").as_bytes()).await.unwrap();
        support::output_holds(&dir, &format!("got {word}")).await;
    }
    shim.close_stdin().unwrap();
    exit(&shim).await;
    assert!(stdout_text(&dir).ends_with("end\n"));
    let said = subagent_process::log::read_stream(&dir, subagent_core::frame::Kind::Stdin, 100, 0).unwrap();
    assert_eq!(said.head, b"one\ntwo\nthree\n");
}

#[tokio::test]
async fn input_to_a_child_that_closed_it_is_an_error() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    shim.start(piped(world.script("1", "exec <&-; echo closed; sleep 60"))).await.unwrap();
    support::output_holds(&world.attempt_dir("1"), "closed").await;
    let mut result = Ok(());
    for _ in 0..500 {
        result = shim.write_stdin(b"more\n").await;
        if result.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(result, Err(ShimError::StdinClosed)), "{result:?}");
    shim.stop(graces(100, 5_000)).unwrap();
    exit(&shim).await;
}

#[tokio::test]
async fn limits_reach_the_child() {
    let world = World::new(Containment::Auto);
    let shim = world.launcher.launch().await.unwrap();
    let mut job = world.script("1", "ulimit -n; ulimit -c");
    job.rlimits = vec![
        ResourceLimit { resource: Resource::OpenFiles, soft: 77, hard: 77 },
        ResourceLimit { resource: Resource::Core, soft: 0, hard: 0 },
    ];
    shim.start(job).await.unwrap();
    exit(&shim).await;
    assert_eq!(stdout_text(&world.attempt_dir("1")), "77\n0\n");
}

#[tokio::test]
async fn replacing_the_program_on_disk_changes_nothing() {
    let world = World::new(Containment::Auto);
    let copy = world.path("shim");
    std::fs::copy(support::shim_program(), &copy).unwrap();
    let launcher = subagent_process::ShimLauncher::new(subagent_process::LauncherConfig {
        program: copy.clone(),
        sockets: world.path("s"),
        containment: Containment::Walk,
        tag: "copy".to_owned(),
    })
    .unwrap();
    std::fs::remove_file(&copy).unwrap();
    let shim = launcher.launch().await.unwrap();
    shim.start(world.script("1", "exit 4")).await.unwrap();
    assert_eq!(exit(&shim).await.exit_code, Some(4));
    let pid = shim.identity().pid;
    shim.release().unwrap();
    drop(shim);
    eventually(5, "the idle shim ends with its connection", || !support::alive(pid)).await;
    assert_eq!(std::fs::read_dir(world.path("s")).unwrap().count(), 0);
}
