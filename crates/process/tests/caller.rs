//! To which attempt a process belongs, asked of real ones: by group, by ancestors, by environment, and not at all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod support;

use std::path::Path;
use std::process::{Child, Command};

use subagent_core::frame::control::MARKER;
use subagent_process::{Callers, Containment, Evidence, ProcessIdentity, Shim, Started, identify};
use support::{World, alive, eventually, exit, graces, output_holds, stdout_text};

/// Prints its own pid, that of a plain grandchild, and that of one which has left: another session, an empty
/// environment, and a parent that is gone.
const TREE: &str = "echo child $$; sleep 600 & echo grandchild $!; \
                    env -i setsid sh -c 'sleep 600 & echo runaway $!' & wait $!; echo ready; wait";

struct Tree {
    shim: Shim,
    started: Started,
    text: String,
}

impl Tree {
    async fn start(world: &World, key: &str, script: &str) -> Self {
        let shim = world.launcher.launch().await.unwrap();
        let started = shim.start(world.script(key, script)).await.unwrap();
        let dir = world.attempt_dir(key);
        output_holds(&dir, "ready").await;
        Self { shim, started, text: stdout_text(&dir) }
    }

    fn pid(&self, name: &str) -> u32 {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|pid| pid.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {}", self.text))
    }

    fn enter(&self, callers: &Callers, key: &str) {
        let (shim, child) = (self.shim.identity().clone(), self.started.process.clone());
        callers.enter(self.shim.cgroup(), shim, Some(child), key.to_owned());
    }

    async fn end(self) {
        self.shim.stop(graces(200, 5_000)).unwrap();
        exit(&self.shim).await;
    }
}

/// A process of this user that has nothing to do with any attempt; ended when dropped.
struct Stranger(Child);

impl Stranger {
    fn new(marker: Option<&str>) -> Self {
        let mut command = Command::new("sleep");
        command.arg("600");
        match marker {
            Some(marker) => command.env(MARKER, marker),
            None => command.env_remove(MARKER),
        };
        let child = command.spawn().unwrap();
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn identity(&self) -> ProcessIdentity {
        identify(self.pid()).unwrap()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn evidence(callers: &Callers, pid: u32) -> Option<(String, Evidence)> {
    callers.find(pid).map(|caller| (caller.attempt, caller.evidence))
}

/// The same process as it would be known had its pid been used before.
fn earlier(identity: &ProcessIdentity) -> ProcessIdentity {
    ProcessIdentity { start_time: identity.start_time - 1, ..identity.clone() }
}

#[tokio::test]
async fn the_whole_tree_is_found_and_strangers_are_not() {
    for containment in [Containment::Auto, Containment::Walk] {
        let world = World::new(containment);
        let callers = Callers::new();
        let (one, two) = (Tree::start(&world, "1", TREE).await, Tree::start(&world, "2", TREE).await);
        one.enter(&callers, "one");
        two.enter(&callers, "two");
        let by = if one.shim.cgroup().is_some() { Evidence::Group } else { Evidence::Ancestors };
        for (tree, key) in [(&one, "one"), (&two, "two")] {
            for name in ["child", "grandchild", "runaway"] {
                let found = evidence(&callers, tree.pid(name));
                assert_eq!(found, Some((key.to_owned(), by)), "{name} of {key}, {containment:?}");
            }
            assert_eq!(callers.attempt_of(tree.shim.identity().pid).as_deref(), Some(key));
        }
        let stranger = Stranger::new(None);
        for pid in [0, 1, std::process::id(), stranger.pid(), u32::MAX] {
            assert_eq!(callers.find(pid), None, "{pid}");
        }

        callers.leave("one");
        assert_eq!(callers.attempt_of(one.pid("runaway")), None);
        assert_eq!(callers.attempt_of(two.pid("runaway")).as_deref(), Some("two"));
        one.end().await;
        let gone = two.pid("runaway");
        two.end().await;
        assert!(!alive(gone));
        assert_eq!(callers.find(gone), None, "a process that is gone belongs to nothing");
    }
}

/// Each way of knowing, with the surer ones taken away.
#[tokio::test]
async fn each_evidence_holds_by_itself() {
    let world = World::new(Containment::Auto);
    let tree = Tree::start(&world, "1", TREE).await;
    // A shim and a child that are not the real ones, and not younger, so that only the group is left.
    let nobody = earlier(tree.shim.identity());
    let key = world.key("1");

    match tree.shim.cgroup() {
        Some(group) => {
            let callers = Callers::new();
            callers.enter(Some(group), nobody.clone(), None, key.clone());
            assert_eq!(evidence(&callers, tree.pid("runaway")), Some((key.clone(), Evidence::Group)));
        }
        None => eprintln!("skipped: no control group can be made here ({:?})", world.launcher.containment()),
    }

    let callers = Callers::new();
    callers.enter(None, tree.shim.identity().clone(), None, key.clone());
    assert_eq!(evidence(&callers, tree.pid("runaway")), Some((key.clone(), Evidence::Ancestors)));

    let callers = Callers::new();
    callers.enter(None, nobody.clone(), Some(tree.started.process.clone()), key.clone());
    assert_eq!(evidence(&callers, tree.pid("grandchild")), Some((key.clone(), Evidence::Ancestors)));
    assert_eq!(callers.find(tree.pid("runaway")), None, "its parents are gone and its environment is empty");

    let callers = Callers::new();
    callers.enter(None, nobody, None, key.clone());
    assert_eq!(evidence(&callers, tree.pid("grandchild")), Some((key, Evidence::Environment)));
    tree.end().await;
}

#[tokio::test]
async fn a_pid_that_was_used_again_makes_no_member() {
    let world = World::new(Containment::Walk);
    let tree = Tree::start(&world, "1", TREE).await;
    let (shim, child) = (tree.shim.identity(), &tree.started.process);
    let callers = Callers::new();
    callers.enter(None, earlier(shim), Some(earlier(child)), "one".to_owned());
    for pid in [shim.pid, child.pid, tree.pid("runaway")] {
        assert_eq!(callers.find(pid), None);
    }
    callers.enter(None, shim.clone(), Some(child.clone()), "one".to_owned());
    assert_eq!(callers.attempt_of(tree.pid("runaway")).as_deref(), Some("one"));
    tree.end().await;
}

#[tokio::test]
async fn what_a_process_says_of_itself_counts_last_and_only_of_live_attempts() {
    let world = World::new(Containment::Auto);
    let tree = Tree::start(&world, "1", TREE).await;
    // It claims to be of an attempt that is known, from within another one.
    let script = "SUBAGENT_ATTEMPT=one sleep 600 & echo liar $!; echo ready; wait";
    let other = Tree::start(&world, "2", script).await;
    let callers = Callers::new();
    tree.enter(&callers, "one");
    other.enter(&callers, "two");
    eventually(5, "it says so", || {
        let environ = std::fs::read(format!("/proc/{}/environ", other.pid("liar"))).unwrap();
        environ.split(|byte| *byte == 0).any(|entry| entry == b"SUBAGENT_ATTEMPT=one")
    })
    .await;
    assert_eq!(callers.attempt_of(other.pid("liar")).as_deref(), Some("two"));

    let outside = Stranger::new(Some("one"));
    eventually(5, "the hint shows once it is executed", || {
        evidence(&callers, outside.pid()) == Some(("one".to_owned(), Evidence::Environment))
    })
    .await;
    let of_nobody = Stranger::new(Some("an attempt that nobody entered"));
    assert_eq!(callers.find(of_nobody.pid()), None);
    tree.end().await;
    other.end().await;
}

#[tokio::test]
async fn a_group_below_the_attempts_own_is_no_way_out() {
    let world = World::new(Containment::Auto);
    let tree = Tree::start(&world, "1", TREE).await;
    let Some(group) = tree.shim.cgroup().map(Path::to_owned) else {
        eprintln!("skipped: no control group can be made here ({:?})", world.launcher.containment());
        return tree.end().await;
    };
    let below = group.join("own");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(below.join("cgroup.procs"), tree.pid("runaway").to_string()).unwrap();
    let callers = Callers::new();
    callers.enter(Some(&group), earlier(tree.shim.identity()), None, "one".to_owned());
    assert_eq!(evidence(&callers, tree.pid("runaway")), Some(("one".to_owned(), Evidence::Group)));
    tree.end().await;
}

#[tokio::test]
async fn a_zombie_belongs_to_nothing() {
    let mut stranger = Stranger::new(None);
    let identity = stranger.identity();
    let callers = Callers::new();
    callers.enter(None, identity.clone(), None, "one".to_owned());
    assert_eq!(callers.attempt_of(identity.pid).as_deref(), Some("one"));
    stranger.0.kill().unwrap();
    eventually(5, "it is gone before anybody waited for it", || callers.find(identity.pid).is_none()).await;
    stranger.0.wait().unwrap();
}

#[test]
fn many_may_ask_while_attempts_come_and_go() {
    let callers = Callers::new();
    let stranger = Stranger::new(None);
    callers.enter(None, stranger.identity(), None, "stays".to_owned());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..300 {
                    assert_eq!(callers.attempt_of(stranger.pid()).as_deref(), Some("stays"));
                }
            });
        }
        for at in 0..300_u32 {
            let other = ProcessIdentity { pid: 4_000_000 + at, ..stranger.identity() };
            callers.enter(Some(Path::new("/nowhere")), other, None, at.to_string());
            callers.leave(&at.to_string());
        }
    });
}
