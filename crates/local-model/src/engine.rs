//! The one thread that computes, and the bounded queue before it. What was read for the last request stays, so that a prompt with
//! the same beginning goes on from there. A generation whose listener is gone ends at the next token or part of a prompt.

use std::io::{Read, Seek};
use std::sync::Arc;

use candle_core::quantized::gguf_file::Content;
use tokio::sync::mpsc;

use crate::chat::Piece;
use crate::grammar::Machine;
use crate::model::{Cache, LoadError, Model};
use crate::sampler::{self, Dice};
use crate::text::Collector;
use crate::tokens::Tokens;
use crate::wire::{Refused, Usage};

/// How much of a prompt is computed between two looks at whether anybody still listens.
const PART: usize = 64;

/// What to generate.
pub struct Job {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// What the answer follows.
    pub grammar: Option<Machine>,
    /// Most tokens of the answer.
    pub most: usize,
    /// 0: the likeliest.
    pub temperature: f32,
    /// For drawing.
    pub seed: u64,
    /// Where to end.
    pub stops: Vec<String>,
    /// Who listens. Holds no more than the answer is long.
    pub to: mpsc::UnboundedSender<Event>,
}

/// What a listener hears; `Done` or `Failed` is the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A piece of the answer.
    Text(String),
    /// Its end.
    Done {
        /// Whether it ended by itself, and not because its tokens were used up.
        whole: bool,
        /// What it cost.
        usage: Usage,
    },
    /// Nothing more comes.
    Failed(String),
}

/// The queue was full.
#[derive(Debug)]
pub struct Busy;

/// The way to the thread. It ends when the last of these is gone.
#[derive(Clone)]
pub struct Engine {
    jobs: mpsc::Sender<Job>,
    tokens: Arc<Tokens>,
    context: usize,
}

impl Engine {
    /// Reads weights and starts the thread. Up to `waiting` requests wait for the one that is computed.
    pub fn start<R: Read + Seek>(weights: &mut R, context: usize, waiting: usize) -> Result<Self, LoadError> {
        let content = Content::read(weights)?;
        let tokens = Arc::new(Tokens::load(&content)?);
        for name in ["<|im_start|>", "<|im_end|>"] {
            if tokens.control(name).is_none() {
                return Err(LoadError::Unusable(format!(
                    "it has no token `{name}`: it was not taught to converse"
                )));
            }
        }
        let model = Model::load(&content, weights, context)?;
        let context = model.context();
        let cache = model.cache()?;
        let (jobs, queue) = mpsc::channel(waiting.max(1));
        let worker = Worker { model, tokens: Arc::clone(&tokens), cache, read: Vec::new() };
        std::thread::Builder::new()
            .name("model".to_owned())
            .spawn(move || worker.run(queue))
            .map_err(|error| LoadError::Unusable(format!("no thread could be started: {error}")))?;
        Ok(Self { jobs, tokens, context })
    }

    /// How many tokens prompt and answer may have together.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The tokens of a prompt.
    pub fn encode(&self, pieces: &[Piece]) -> Result<Vec<u32>, Refused> {
        let mut all = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Control(name) => all.extend(self.tokens.control(name)),
                Piece::Text(text) => {
                    all.extend(self.tokens.encode(text).map_err(|error| Refused::new("internal", error))?);
                }
            }
        }
        if all.len() >= self.context {
            return Err(Refused::new(
                "context_length_exceeded",
                format!(
                    "the prompt has {} tokens and the context {}; shorten it, or start the server with a larger --context",
                    all.len(),
                    self.context
                ),
            ));
        }
        Ok(all)
    }

    /// Puts a job into the queue.
    pub fn submit(&self, job: Job) -> Result<(), Busy> {
        self.jobs.try_send(job).map_err(|_| Busy)
    }
}

struct Worker {
    model: Model,
    tokens: Arc<Tokens>,
    cache: Cache,
    /// The tokens that the cache has.
    read: Vec<u32>,
}

/// Nobody listens any more.
struct Gone;

impl Worker {
    fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(job) = queue.blocking_recv() {
            let to = job.to.clone();
            match self.generate(job) {
                Ok(Ok(()) | Err(Gone)) => {}
                Err(error) => {
                    // What the cache has after a failure is not known.
                    self.cache.truncate(0);
                    self.read.clear();
                    let _ = to.send(Event::Failed(error.to_string()));
                }
            }
        }
    }

    fn generate(&mut self, job: Job) -> candle_core::Result<Result<(), Gone>> {
        // The last token is computed in any case: what follows it is asked.
        let common = self.read.iter().zip(&job.prompt).take_while(|(one, other)| one == other).count();
        let known = common.min(job.prompt.len().saturating_sub(1));
        self.cache.truncate(known);
        self.read.truncate(known);
        let mut usage = Usage { prompt: job.prompt.len(), cached: known, completion: 0 };
        let mut logits = Vec::new();
        for part in job.prompt[known..].chunks(PART) {
            if job.to.is_closed() {
                return Ok(Err(Gone));
            }
            logits = self.advance(part)?;
        }
        let mut dice = Dice::new(job.seed);
        let mut collector = Collector::new(job.stops);
        let mut grammar = job.grammar;
        let most = job.most.min(self.model.context() - job.prompt.len());
        let mut whole = false;
        while usage.completion < most {
            if job.to.is_closed() {
                return Ok(Err(Gone));
            }
            let vocabulary = &self.tokens.vocabulary;
            let Some((id, after)) =
                sampler::next(&logits, vocabulary, grammar.as_ref(), job.temperature, &mut dice)
            else {
                candle_core::bail!("no token fits what the answer has to follow");
            };
            usage.completion += 1;
            if vocabulary.is_end(id) {
                whole = true;
                break;
            }
            let (text, stopped) = collector.push(vocabulary.bytes(id));
            if !text.is_empty() && job.to.send(Event::Text(text)).is_err() {
                return Ok(Err(Gone));
            }
            grammar = after;
            if stopped || grammar.as_ref().is_some_and(Machine::is_over) {
                whole = true;
                break;
            }
            if usage.completion < most {
                logits = self.advance(&[id])?;
            }
        }
        let rest = collector.finish();
        if !rest.is_empty() {
            let _ = job.to.send(Event::Text(rest));
        }
        let _ = job.to.send(Event::Done { whole, usage });
        Ok(Ok(()))
    }

    fn advance(&mut self, tokens: &[u32]) -> candle_core::Result<Vec<f32>> {
        let logits = self.model.forward(tokens, &mut self.cache)?;
        self.read.extend_from_slice(tokens);
        Ok(logits)
    }
}
