//! What holds for every agent, whoever made it.

use rustix::process::Signal;
use serde_json::Value;
use subagent_testkit::home::kill;
use subagent_testkit::model_server::{Answer, Piece, Reply, Request};
use subagent_testkit::{Agent, until};

use crate::world::{World, asks, is_acp, takes_texts};

/// Fields that a record has where its provider reports what is needed for them.
const REPORTED: &[&str] = &["usage", "run_usage"];

/// The same task gives the same record, the same status, and a use that is true.
pub(crate) fn the_same_task(agent: Agent) {
    let world = World::new(agent);
    let record = world.run(&["--allow", "*"], "count to three [[usage:70,8]]");
    let result = world.good(&record);
    assert!(result.contains("FAKE-OK users=1 results=0 first='count to three'"), "{result:?}");
    // Gemini cannot go on with a session in another process, so none is named.
    let shape = SHAPE.iter().filter(|key| agent != Agent::Gemini || **key != "session");
    let keys: Vec<_> = record
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .filter(|key| !REPORTED.contains(key))
        .collect();
    assert_eq!(keys, shape.copied().collect::<Vec<_>>(), "the shape of a record is the same for all");
    assert_eq!((&record["run"], &record["attempt"]), (&1.into(), &1.into()));
    let usage = &record["usage"];
    match agent {
        // They tell it, and it is what the model said.
        Agent::Claude | Agent::Codex | Agent::Pi => {
            assert_eq!((&usage["input"], &usage["output"]), (&70.into(), &8.into()), "{usage:#}");
        }
        // Unknown is unknown, and not nothing.
        Agent::PiAcp => assert!(usage.is_null(), "{usage:#}"),
        _ => assert!(usage.is_null() || usage["total"].as_u64().unwrap() > 0, "{usage:#}"),
    }
    let types: Vec<_> =
        world.transcript(record["handle"].as_str().unwrap()).iter().map(|e| e["type"].clone()).collect();
    for wanted in ["begin", "opened", "prompt", "message", "turn_end"] {
        assert!(types.contains(&wanted.into()), "{wanted} is in {types:?}");
    }
    assert_eq!(types.iter().filter(|it| **it == "prompt").count(), 1);
}

const SHAPE: &[&str] = &[
    "accepted_at",
    "attempt",
    "attempts",
    "compaction_count",
    "completed_at",
    "consumed",
    "created_at",
    "cwd",
    "depth",
    "description",
    "durable",
    "end_reason",
    "exited_at",
    "handle",
    "id",
    "is_background",
    "mode",
    "provider",
    "quality",
    "requested_by",
    "result",
    "resumable",
    "root",
    "run",
    "session",
    "started_at",
    "status",
    "tier",
    "tool_uses",
    "transcript",
    "turn_count",
    "type",
    "updated_at",
];

/// A tool is used, told of, and has its effect.
pub(crate) fn a_tool(agent: Agent) {
    let world = World::new(agent);
    let task = format!("work {} [[say:done]]", world.writes("made.txt", "by a tool"));
    let record = world.run(&["--allow", "*"], &task);
    let result = world.good(&record);
    assert!(result.contains("done"), "{result:?}");
    assert_eq!(std::fs::read_to_string(world.file("made.txt")).unwrap().trim_end(), "by a tool");
    assert!(record["tool_uses"].as_u64().unwrap() >= 1, "{record:#}");
    assert_eq!(record["quality"], "ok", "{record:#}");
    let entries = world.transcript(record["handle"].as_str().unwrap());
    assert!(entries.iter().any(|entry| entry["type"] == "tool"), "{entries:#?}");
    assert!(entries.iter().any(|entry| entry["type"] == "tool_result"), "{entries:#?}");
}

/// A picture and a text reach the model; what an agent does not take is refused before anything is sent.
pub(crate) fn files(agent: Agent) {
    let world = World::new(agent);
    let (picture, text) = (world.file("shot.png"), world.file("notes.md"));
    std::fs::write(&picture, PICTURE).unwrap();
    std::fs::write(&text, "The word is xyzzy-42.\n").unwrap();
    let picture = ["--attach", picture.to_str().unwrap()];
    let text = ["--attach", text.to_str().unwrap()];
    let asked = || -> Vec<_> {
        world.model.requests().into_iter().filter(|request| request.conversation.is_some()).collect()
    };
    if !takes_texts(agent) {
        let record = world.run(&[picture, text].concat(), "look at it [[say:seen]]");
        assert_eq!(record["error"]["code"], "not_capable", "acp_07: {record:#}");
        assert!(asked().is_empty(), "nothing was sent");
    }
    let flags = if takes_texts(agent) { [picture, text].concat() } else { picture.to_vec() };
    let record = world.run(&flags, "look at it [[say:seen]]");
    assert!(world.good(&record).contains("seen"));
    let body = asked().iter().map(|request| request.body.to_string()).collect::<String>();
    // Some make it anew first, so only what it begins with is known.
    assert!(body.contains("iVBORw0KGgo") && body.contains("image/png"), "the picture: {body:.4000}");
    assert_eq!(body.contains("xyzzy-42"), takes_texts(agent), "the text: {body:.4000}");
    let entries = world.transcript(record["handle"].as_str().unwrap());
    let prompt = entries.iter().find(|entry| entry["type"] == "prompt").unwrap();
    assert_eq!(prompt["attached"][0]["name"], "shot.png", "{prompt:#}");
}

/// One point, red.
const PICTURE: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00,
    0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x64, 0xf8, 0xcf, 0x50, 0x0f, 0x00, 0x03,
    0x86, 0x01, 0x80, 0x5a, 0x34, 0x7d, 0x6b, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42,
    0x60, 0x82,
];

/// What it asks for waits for an answer; a no is a no, and the agent goes on.
pub(crate) fn an_approval(agent: Agent) {
    if !asks(agent) {
        return;
    }
    for (answer, made) in [("approve", true), ("deny", false)] {
        let world = World::new(agent);
        let task = format!("work {} [[say:went on]]", world.writes("made.txt", "x"));
        let id = world.start(&[], &task);
        let request = until("a request", || {
            let open = world.home.run(&["requests", "--json"]).ended(0).json();
            let first = open["items"].as_array()?.first()?.clone();
            Some(first)
        });
        assert!(!world.file("made.txt").exists(), "not before the answer: {request:#}");
        assert_eq!(world.home.show(&id)["status"], "waiting");
        let number = format!("{id}.q{}", request["number"]);
        world.home.run(&[answer, &number]).ended(0);
        // Some ask for each of several steps.
        let record = until("the end", || {
            let open = world.home.run(&["requests", "--json"]).ended(0).json();
            for request in open["items"].as_array().into_iter().flatten() {
                world.home.run(&[answer, &format!("{id}.q{}", request["number"])]);
            }
            let record = world.home.show(&id);
            record["completed_at"].is_string().then_some(record)
        });
        let result = world.good(&record);
        assert!(result.contains("went on"), "{result:?}");
        assert_eq!(world.file("made.txt").exists(), made, "{answer}");
    }
}

/// A message reaches the model in its turn, or where the protocol has no word for that, after it.
pub(crate) fn a_message(agent: Agent) {
    let world = World::new(agent);
    let work = world.writes("made.txt", "x");
    let task = format!("first {work} [[gate:go]] [[say:one]]");
    let gate = world.model.gate("go");
    gate.shut();
    let id = world.start(&["--allow", "*"], &task);
    until("the model to be asked", || (gate.waiting() > 0).then_some(()));
    if agent == Agent::Gemini {
        // A follow-up is another run, which it cannot have: refused at once.
        let refused = world.home.run(&["steer", "--follow-up", &id, "more"]).ended(4);
        assert!(refused.err.contains("not_resumable"), "{}", refused.err);
        gate.open();
        world.end(&id);
        return;
    }
    let flags: &[&str] = if is_acp(agent) { &["--follow-up"] } else { &[] };
    let steer = [&["steer"], flags, &[&id, "and also [[say:two]]"]].concat();
    world.home.run(&steer).ended(0);
    gate.open();
    let record = if is_acp(agent) {
        until("the second run", || {
            let record = world.home.show(&id);
            (record["run"] == 2 && record["completed_at"].is_string()).then_some(record)
        })
    } else {
        world.end(&id)
    };
    let result = world.good(&record);
    assert!(result.contains("two users=2"), "the model saw both: {result:?}");
    let messages = world.home.run(&["messages", "--json", &id]).ended(0).json();
    assert_eq!(messages["items"][0]["receipt"], "delivered", "{messages:#}");
}

/// A turn is cancelled, the session stays, and the next words are heard in it.
pub(crate) fn an_interrupt(agent: Agent) {
    let world = World::new(agent);
    let id = world.start(&["--allow", "*"], "first [[slow:600*100]]");
    until("the model to speak", || {
        (world.model.conversations().iter().any(|request| request.prompt().contains("first"))).then_some(())
    });
    until("a word of it", || {
        let activity = world.home.http().get("/v1/activity").json();
        activity["items"].as_array()?.iter().find(|it| it["text"].is_string()).cloned()
    });
    world.home.run(&["steer", "--interrupt", &id, "now this [[say:heard]]"]).ended(0);
    let record = world.end(&id);
    let result = world.good(&record);
    assert!(result.contains("heard"), "{result:?}");
}

/// What goes wrong at the model again and again is told for what it is, and never a good end.
pub(crate) fn failures(agent: Agent) {
    let world = World::new(agent);
    let native = !is_acp(agent);
    let always = |word: &'static str, answer: Answer| {
        let fits = move |request: &Request| {
            let prompts = request.conversation.as_ref().map(|it| it.prompts.as_slice());
            prompts.and_then(<[_]>::first).is_some_and(|first| first.contains(word))
        };
        world.model.when(fits).answer(answer);
    };
    always("blank", Answer::text(""));
    always("key", Answer::status(401));
    always("cut", Reply::text("begun").and(Piece::Cut).into());
    always("busy", Answer::status(if agent == Agent::Claude { 529 } else { 503 }));
    for word in ["blank", "key", "cut"] {
        let id = world.start(&["--on-loss", "fail", "--deadline", "20s"], &format!("task {word}"));
        // Some try again by themselves, and so do we: what is put back says so, and can be stopped meanwhile.
        let record = until("an end, or a wait for the provider", || {
            let record = world.home.show(&id);
            (record["completed_at"].is_string() || record["queued_for"]["for"] == "rate").then_some(record)
        });
        let told = || world.told(&id);
        match record["status"].as_str().unwrap() {
            "error" | "aborted" => {}
            "queued" => {
                world.home.run(&["stop", "--wait", &id]).ended(0);
                assert_eq!(world.home.show(&id)["status"], "stopped");
            }
            // It was asked once more, and said nothing: that is shown.
            "completed" => {
                assert_eq!(record["quality"], "unverified", "{word}: {record:#}\n{}", told());
                assert!(record["result"].is_null(), "{word}: {record:#}\n{}", told());
            }
            other => panic!("{word} ended {other}: {record:#}\n{}", told()),
        }
        if word == "key" && native {
            let error = world.bad(&record);
            assert_eq!((&error["code"], &error["retryable"]), (&"auth".into(), &false.into()), "{error:#}");
        }
    }
    if native {
        let id = world.start(&[], "task busy");
        let waits = || (world.home.show(&id)["queued_for"]["for"] == "rate").then_some(());
        until("it to wait for its provider", waits);
        world.home.run(&["stop", "--wait", &id]).ended(0);
        assert_eq!(world.home.show(&id)["status"], "stopped");
    }
}

/// What passes is got over, in the same session where work had begun.
pub(crate) fn mishaps(agent: Agent) {
    let world = World::new(agent);
    let mut tasks = vec!["limited [[status:429*1]] [[retry-after:0]] [[say:fine]]"];
    // Claude Code asks by itself again, several times, and Qwen Code says that it failed; of the others some count a stream
    // that was cut as their end.
    if !matches!(agent, Agent::Claude | Agent::ClaudeAcp | Agent::Qwen) {
        tasks.push("blank [[empty*1]] [[say:fine]]");
    }
    if !is_acp(agent) {
        tasks.push("cut [[drop*1]] [[say:fine]]");
    }
    for task in tasks {
        let result = world.good(&world.run(&[], task));
        assert!(result.contains("FAKE-OK") || result.contains("fine"), "{task}: {result:?}");
    }
}

/// The daemon dies in the middle of a turn: the next one hears the answer of the same process.
pub(crate) fn adoption(agent: Agent) {
    let world = World::new(agent);
    let gate = world.model.gate("go");
    gate.shut();
    let id = world
        .start(&["--allow", "*"], &format!("first {} [[gate:go]] [[say:after]]", world.writes("a.txt", "x")));
    until("the model to be asked", || (gate.waiting() > 0).then_some(()));
    let pid = world.home.until_pid(&id);
    world.home.next_daemon();
    gate.open();
    let record = world.end(&id);
    let result = world.good(&record);
    assert!(result.contains("after users=1"), "{result:?}");
    assert_eq!(record["attempts"][0]["process"]["pid"], pid);
    assert_eq!((&record["attempt"], record["attempts"].as_array().unwrap().len()), (&1.into(), 1));
    world.nobody_is_left(&id);
}

/// Another process goes on with the session.
pub(crate) fn a_resume(agent: Agent) {
    if matches!(agent, Agent::Gemini) {
        return;
    }
    let world = World::new(agent);
    let record = world.run(&["--allow", "*"], "remember me [[say:one]]");
    world.good(&record);
    let id = record["handle"].as_str().unwrap();
    world.command("resume", &["--background"], &[id, "and now [[say:two]]"]).ended(0);
    let record = until("the second run", || {
        let record = world.home.show(id);
        (record["run"] == 2 && record["completed_at"].is_string()).then_some(record)
    });
    let result = world.good(&record);
    assert!(result.contains("two users=2") && result.contains("first='remember me'"), "{result:?}");
}

/// Its process is killed: that is an error with the facts, and nothing is left.
pub(crate) fn a_kill(agent: Agent) {
    for signal in [Signal::KILL, Signal::TERM] {
        let world = World::new(agent);
        let record = killed(&world, signal);
        let error = world.bad(&record);
        assert!(error["retryable"].is_boolean(), "{error:#}");
        let exit = &record["attempts"][0]["exit"];
        assert!(exit["signal"].is_number() || exit["code"].is_number(), "{record:#}");
        world.nobody_is_left(record["handle"].as_str().unwrap());
    }
}

/// What a terminal sends on an interrupt: some end with an exit code that says all is well. It is no good end, and nothing is
/// left.
pub(crate) fn a_terminal_interrupt(agent: Agent) {
    let world = World::new(agent);
    let id = working(&world);
    kill(world.home.until_pid(&id), Signal::INT);
    world.bad(&world.end(&id));
    world.nobody_is_left(&id);
}

fn killed(world: &World, signal: Signal) -> Value {
    let id = working(world);
    kill(world.home.until_pid(&id), signal);
    world.end(&id)
}

/// A stop in the middle of a tool ends everything, children of the tool with a session of their own as well.
pub(crate) fn a_stop(agent: Agent) {
    let world = World::new(agent);
    let id = working(&world);
    world.home.run(&["stop", "--wait", &id]).ended(0);
    assert_eq!(world.home.show(&id)["status"], "stopped");
    world.nobody_is_left(&id);
}

/// One that has a tool at work which would never end, with a process in a session of its own.
fn working(world: &World) -> String {
    let pipe = world.file("pipe");
    let script = world.file("stay.sh");
    let text = format!(
        "touch {}; setsid sleep 600 & mkfifo {p}; tail -f {p}",
        world.file("began").display(),
        p = pipe.display()
    );
    std::fs::write(&script, text).unwrap();
    let id =
        world.start(&["--allow", "*", "--on-loss", "fail"], &format!("stay [[sh:sh {}]]", script.display()));
    until("the tool to be at work", || pipe.exists().then_some(()));
    id
}
