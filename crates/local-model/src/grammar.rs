//! Which bytes may come next: a grammar as nodes, and the set of places a text can be at in it. A pushdown machine over bytes,
//! so that tokens that end in the middle of a character need no rule of their own. It knows nothing of tokens or models.

use std::sync::Arc;

/// A node of a grammar.
pub type Id = u32;

/// How many places are followed at once; more means a grammar that nobody writes, and the text is refused there.
const MOST_PLACES: usize = 4096;
/// How many nodes may be open at once, which bounds the nesting of a text.
const DEEPEST: usize = 512;

/// One piece of a grammar.
#[derive(Clone, Debug)]
enum Node {
    /// These bytes.
    Bytes(Vec<u8>),
    /// One byte from one of these ranges, both ends included.
    Class(Vec<(u8, u8)>),
    /// One after the other.
    Sequence(Vec<Id>),
    /// One of them.
    Choice(Vec<Id>),
    /// The same again and again; the item is never empty.
    Repeat { item: Id, least: u32, most: Option<u32> },
}

/// What is being written: a grammar that can be added to, then frozen by [`Builder::finish`].
#[derive(Default)]
pub struct Builder {
    nodes: Vec<Node>,
}

impl Builder {
    fn add(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        Id::try_from(self.nodes.len() - 1).unwrap_or(Id::MAX)
    }

    /// These bytes.
    pub fn bytes(&mut self, bytes: impl Into<Vec<u8>>) -> Id {
        self.add(Node::Bytes(bytes.into()))
    }

    /// One byte of these ranges.
    pub fn class(&mut self, ranges: &[(u8, u8)]) -> Id {
        self.add(Node::Class(ranges.to_vec()))
    }

    /// One after the other.
    pub fn sequence(&mut self, items: Vec<Id>) -> Id {
        self.add(Node::Sequence(items))
    }

    /// One of them; none means that nothing fits.
    pub fn choice(&mut self, items: Vec<Id>) -> Id {
        self.add(Node::Choice(items))
    }

    /// `item`, which must not be empty, from `least` to `most` times.
    pub fn repeat(&mut self, item: Id, least: u32, most: Option<u32>) -> Id {
        self.add(Node::Repeat { item, least, most })
    }

    /// A place for a node that is known later: what a recursion points to.
    pub fn reserve(&mut self) -> Id {
        self.choice(Vec::new())
    }

    /// Says what a reserved node is.
    pub fn set(&mut self, reserved: Id, meant: Id) {
        if let Some(node) = self.nodes.get_mut(reserved as usize) {
            *node = Node::Choice(vec![meant]);
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The machine at the beginning of `root`.
    pub fn finish(self, root: Id) -> Machine {
        let mut machine = Machine { nodes: Arc::new(self.nodes), places: Vec::new(), ended: false };
        machine.settle(vec![vec![(root, 0)]]);
        machine
    }
}

/// What is still to come, the next on top: a node, and how far it is.
type Stack = Vec<(Id, u32)>;

/// All the places of a grammar at which the text so far can be. Cheap to clone: the grammar is shared.
#[derive(Clone, Debug)]
pub struct Machine {
    nodes: Arc<Vec<Node>>,
    /// Each has a byte on top.
    places: Vec<Stack>,
    ended: bool,
}

impl Machine {
    /// Whether the text may end here.
    pub fn may_end(&self) -> bool {
        self.ended
    }

    /// Whether nothing more can follow.
    pub fn is_over(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether `byte` may come next.
    pub fn allows(&self, byte: u8) -> bool {
        self.places.iter().any(|stack| self.top_takes(stack, byte))
    }

    /// Goes on by `bytes`; `None` where they do not fit.
    #[must_use]
    pub fn after(&self, bytes: &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        if !self.allows(*first) {
            return None;
        }
        let mut next = self.clone();
        next.step(*first);
        for byte in rest {
            if !next.allows(*byte) {
                return None;
            }
            next.step(*byte);
        }
        Some(next)
    }

    fn top_takes(&self, stack: &Stack, byte: u8) -> bool {
        let Some((id, at)) = stack.last() else { return false };
        match &self.nodes[*id as usize] {
            Node::Bytes(bytes) => bytes.get(*at as usize) == Some(&byte),
            Node::Class(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte)),
            _ => false,
        }
    }

    fn step(&mut self, byte: u8) {
        let mut next = Vec::new();
        for mut stack in std::mem::take(&mut self.places) {
            if !self.top_takes(&stack, byte) {
                continue;
            }
            if let Some((id, at)) = stack.pop()
                && let Node::Bytes(bytes) = &self.nodes[id as usize]
                && (at as usize) + 1 < bytes.len()
            {
                stack.push((id, at + 1));
            }
            next.push(stack);
        }
        self.settle(next);
    }

    /// Opens what is on top until a byte is there.
    fn settle(&mut self, mut open: Vec<Stack>) {
        self.ended = false;
        self.places.clear();
        let mut looked_at = 0;
        while let Some(mut stack) = open.pop() {
            looked_at += 1;
            if looked_at > MOST_PLACES || stack.len() > DEEPEST {
                continue;
            }
            let Some((id, at)) = stack.pop() else {
                self.ended = true;
                continue;
            };
            match &self.nodes[id as usize] {
                Node::Bytes(bytes) if bytes.is_empty() => open.push(stack),
                Node::Bytes(_) | Node::Class(_) => {
                    stack.push((id, at));
                    if !self.places.contains(&stack) {
                        self.places.push(stack);
                    }
                }
                Node::Sequence(items) => {
                    stack.extend(items.iter().rev().map(|item| (*item, 0)));
                    open.push(stack);
                }
                Node::Choice(items) => {
                    for item in items {
                        let mut one = stack.clone();
                        one.push((*item, 0));
                        open.push(one);
                    }
                }
                Node::Repeat { item, least, most } => {
                    if at >= *least {
                        open.push(stack.clone());
                    }
                    if most.is_none_or(|most| at < most) {
                        // Without an upper end only the way to the lower one is counted, so that places stay few.
                        let count = if most.is_none() { (at + 1).min(*least) } else { at + 1 };
                        stack.push((id, count));
                        stack.push((*item, 0));
                        open.push(stack);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(machine: &Machine, text: &str) -> bool {
        machine.after(text.as_bytes()).is_some_and(|after| after.may_end())
    }

    #[test]
    fn repeats_are_counted() {
        let mut it = Builder::default();
        let digit = it.class(&[(b'0', b'9')]);
        let some = it.repeat(digit, 2, Some(3));
        let machine = it.finish(some);
        for (text, good) in [("1", false), ("12", true), ("123", true), ("1234", false), ("1a", false)] {
            assert_eq!(fits(&machine, text), good, "{text}");
        }
        assert!(machine.after(b"123").unwrap().is_over());
    }

    #[test]
    fn a_recursion_is_followed() {
        let mut it = Builder::default();
        let inner = it.reserve();
        let (open, close, empty) = (it.bytes("("), it.bytes(")"), it.bytes(""));
        let nested = it.sequence(vec![open, inner, close]);
        let either = it.choice(vec![nested, empty]);
        it.set(inner, either);
        let machine = it.finish(inner);
        assert!(fits(&machine, "((()))"));
        assert!(!fits(&machine, "((())"));
        assert!(machine.after(b"())").is_none());
    }

    #[test]
    fn alternatives_with_one_beginning_stay_open() {
        let mut it = Builder::default();
        let words = ["read", "real", "write"].map(|word| it.bytes(word));
        let any = it.choice(words.to_vec());
        let machine = it.finish(any);
        assert!(machine.allows(b'r') && machine.allows(b'w') && !machine.allows(b'x'));
        assert!(fits(&machine, "real"));
        assert!(!machine.may_end());
    }
}
