//! The scripted fake: children that play a script and hold at named gates which a test opens one by one. It stands for
//! agents that cannot be had in a test, and makes every moment of a conversation reachable without a sleep. Here is the
//! provider as it is registered; the language of its scripts is in `script`, the playing in `player`, and what tests ask
//! afterwards in `world`.

mod gate;
mod mute;
mod player;
mod script;
mod world;

pub use gate::Gate;
pub use world::{Launched, Told, ToldKind};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subagent_model::{Capabilities, Problem, SpawnSpec, Steering, SubagentId};

use crate::{Job, Launch, ProcessEnd, Provider, Verdict};
use player::Player;
use world::World;

/// A provider whose children play scripts. The prompt is the script, one step a line:
///
/// | Step | What it does |
/// |---|---|
/// | `say TEXT` | says a whole message; the last one is the answer |
/// | `delta TEXT` | says a part of a message |
/// | `turn`, `last turn` | a turn of its model is finished, and it goes on or not |
/// | `use IN OUT [COST]` | used tokens and money |
/// | `tool NAME` | a call of a tool, begun and ended |
/// | `tool start ID NAME`, `tool end ID` | the same in two steps |
/// | `compact` | has shortened its context |
/// | `offer MODEL...` | tells which models it offers |
/// | `denied TEXT` | a rule of its own denied it something |
/// | `background N` | N pieces of background work are live |
/// | `held-up [MS]` | a limit holds it up, until then |
/// | `ask ACTION TITLE` | asks for a permission and waits; the answer is `$answer` from then on |
/// | `ask-once ACTION TITLE` | the same, and no answer with "always" is offered |
/// | `question TEXT [\| CHOICE]...` | asks a question and waits |
/// | `start-ask ACTION TITLE` | asks and goes on |
/// | `await answer` | waits until what it asked last is answered |
/// | `take-back` | no longer waits for what it asked last |
/// | `await steer` | waits for a message: `$steer`, and its sender `$from` |
/// | `steers take`, `decline`, `ignore` | what it does with messages from here on; `ignore` says nothing about them |
/// | `gate NAME` | holds until the test opens the gate |
/// | `sleep MS` | holds for a time |
/// | `done` | its turn is over; what follows is played between the turns |
/// | `truncated` | its answer will be one that was cut off |
/// | `blank` | its turn ends with a blank answer |
/// | `fail [CODE] [reset MS] TEXT` | its turn fails; without a known code as `crashed` |
/// | `refuse TEXT` | its turn fails: the model refused |
/// | `cancelled` | its turn was cancelled, though nobody asked for that |
/// | `limit turns`, `limit cost` | a limit of its own cuts its turn off |
/// | `break TEXT` | breaks its protocol |
/// | `exit` | is gone without a word |
/// | `panic TEXT` | its code fails |
/// | `deaf` | takes no notice of interrupts and of its closing from here on |
/// | `hang` | reacts to nothing any more, to its cancellation neither |
///
/// Any line may begin with `attempt N` (only then), `before-open` (played before it takes prompts), `on-continue` (kept
/// for a later prompt that is no script) and `repeat N`, in this order. Texts may hold `$answer`, `$steer`, `$from` and
/// `$session`.
///
/// While it holds, it reacts: an interrupt cancels its turn, a message is taken, a closing ends it. After a turn it
/// waits for the next prompt, which is a script again. A later prompt that is none is answered by what was kept with
/// `on-continue`, else by `heard: TEXT`.
#[derive(Clone)]
pub struct Scripted {
    name: String,
    can: Capabilities,
    world: Arc<Mutex<World>>,
}

impl Default for Scripted {
    fn default() -> Self {
        Self::named(Self::NAME, Self::all())
    }
}

impl Scripted {
    /// The provider's name, where none was chosen.
    pub const NAME: &str = "scripted";

    /// What a scripted child can do: everything but outlive the daemon.
    pub fn all() -> Capabilities {
        Capabilities {
            steering: Steering::Live,
            interrupt: true,
            resume: true,
            warm: true,
            adopt: false,
            approvals: true,
            model: true,
            turns: true,
            usage: true,
            cost: true,
            ..Capabilities::default()
        }
    }

    /// A provider with a name and abilities of its own. What it cannot do, its children do not do: without any way to
    /// be spoken with they are plain tasks.
    pub fn named(name: impl Into<String>, can: Capabilities) -> Self {
        Self { name: name.into(), can, world: Arc::default() }
    }

    /// One that takes messages at boundaries only: `turn`, a gate that it comes to, `await steer`, and the end of a turn.
    pub fn at_boundary() -> Self {
        Self::named(Self::NAME, Capabilities { steering: Steering::AtBoundary, ..Self::all() })
    }

    /// Another provider with the same gates and the same memory.
    #[must_use]
    pub fn also(&self, name: impl Into<String>, can: Capabilities) -> Self {
        Self { name: name.into(), can, world: Arc::clone(&self.world) }
    }

    /// The gate of this name.
    pub fn gate(&self, name: &str) -> Gate {
        self.world().gate(name)
    }

    /// Everything that children were told, in order. A message counts when the child has taken it.
    pub fn heard(&self) -> Vec<Told> {
        self.world().told.clone()
    }

    /// What one subagent was told, in words: `prompt TEXT`, `steer N TEXT`, `interrupt`, `answer WORD`, `close`.
    pub fn heard_by(&self, subagent: SubagentId) -> Vec<String> {
        let world = self.world();
        world.told.iter().filter(|told| told.key.subagent == subagent).map(ToString::to_string).collect()
    }

    /// Every child that began, in order.
    pub fn launches(&self) -> Vec<Launched> {
        self.world().launches.clone()
    }

    /// Forgets a session: who wants to continue it is told that it is gone.
    pub fn forget(&self, session: &str) {
        self.world().forget(session);
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.can
    }

    fn check(&self, _: &SpawnSpec) -> Result<(), Problem> {
        Ok(())
    }

    fn launch(&self, job: &Job) -> Result<Launch, Problem> {
        let (fake, job) = (self.clone(), job.clone());
        if !self.can.converses() {
            return Ok(Launch::Task(Box::new(move |context| {
                let begin = fake.world().begin(&job, &context);
                Box::pin(mute::play(fake, begin, context))
            })));
        }
        Ok(Launch::Dialogue(Box::new(move |context, link| {
            let begin = fake.world().begin(&job, &context);
            Box::pin(Player::new(fake, begin, context, link).play())
        })))
    }

    fn conclude(&self, _: &Job, _: &ProcessEnd) -> Verdict {
        // It launches no processes; the runtime never asks.
        Verdict::lost("a scripted child has no process")
    }
}

#[cfg(test)]
mod tests;
