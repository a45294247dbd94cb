//! Which token comes next: the likeliest, or one drawn by temperature, among those that the grammar allows. Drawing without
//! putting back until one fits has the same distribution as masking all others first, and looks at few tokens only. Pure.

use crate::grammar::Machine;
use crate::tokens::Vocabulary;

/// A small generator of random numbers (xorshift64*), so that a seed means the same everywhere.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// From 0 up to, without, 1.
    pub fn roll(&mut self) -> f32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = u16::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 48).unwrap_or(0);
        f32::from(bits) / 65536.0
    }
}

/// The next token, and the grammar after it; `None` where nothing fits.
pub fn next(
    logits: &[f32],
    vocabulary: &Vocabulary,
    grammar: Option<&Machine>,
    temperature: f32,
    dice: &mut Dice,
) -> Option<(u32, Option<Machine>)> {
    let mut first = [true; 256];
    if let Some(grammar) = grammar {
        for (byte, allowed) in (0..=u8::MAX).zip(first.iter_mut()) {
            *allowed = grammar.allows(byte);
        }
    }
    let mut open: Vec<(u32, f32)> = Vec::new();
    for (id, logit) in (0_u32..).zip(logits) {
        if !logit.is_finite() {
            continue;
        }
        let fine = if vocabulary.is_end(id) {
            grammar.is_none_or(Machine::may_end)
        } else {
            // Other control tokens never belong into an answer.
            vocabulary.bytes(id).first().is_some_and(|byte| first[usize::from(*byte)])
        };
        if fine {
            open.push((id, *logit));
        }
    }
    while !open.is_empty() {
        let at = if temperature <= 0.0 { likeliest(&open) } else { draw(&open, temperature, dice) };
        let (id, _) = open.swap_remove(at);
        if vocabulary.is_end(id) {
            return Some((id, grammar.cloned()));
        }
        match grammar {
            None => return Some((id, None)),
            Some(grammar) => {
                if let Some(after) = grammar.after(vocabulary.bytes(id)) {
                    return Some((id, Some(after)));
                }
            }
        }
    }
    None
}

fn likeliest(open: &[(u32, f32)]) -> usize {
    let mut best = 0;
    for (at, (id, logit)) in open.iter().enumerate() {
        let (best_id, best_logit) = open[best];
        // Of equals the lower number, whatever was taken out before.
        if *logit > best_logit || (logit.total_cmp(&best_logit).is_eq() && *id < best_id) {
            best = at;
        }
    }
    best
}

fn draw(open: &[(u32, f32)], temperature: f32, dice: &mut Dice) -> usize {
    let most = open.iter().map(|(_, logit)| *logit).fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| ((logit - most) / temperature).exp();
    let total: f32 = open.iter().map(|(_, logit)| weight(*logit)).sum();
    let mut left = dice.roll() * total;
    for (at, (_, logit)) in open.iter().enumerate() {
        left -= weight(*logit);
        if left < 0.0 {
            return at;
        }
    }
    likeliest(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::Builder;

    fn vocabulary() -> Vocabulary {
        Vocabulary::new(
            vec![b"yes".to_vec(), b"no".to_vec(), b"not".to_vec(), Vec::new(), Vec::new()],
            vec![3],
        )
    }

    fn yes_or_no() -> Machine {
        let mut it = Builder::default();
        let words = vec![it.bytes("yes"), it.bytes("no")];
        let any = it.choice(words);
        it.finish(any)
    }

    #[test]
    fn the_likeliest_that_fits_is_taken() {
        let mut dice = Dice::new(1);
        let machine = yes_or_no();
        let logits = [0.0, 1.0, 5.0, 9.0, 99.0];
        assert_eq!(
            next(&logits, &vocabulary(), None, 0.0, &mut dice).unwrap().0,
            3,
            "a control token is none"
        );
        let (id, after) = next(&logits, &vocabulary(), Some(&machine), 0.0, &mut dice).unwrap();
        assert_eq!(id, 1);
        assert_eq!(next(&logits, &vocabulary(), after.as_ref(), 0.0, &mut dice).unwrap().0, 3);
    }

    #[test]
    fn one_seed_one_sequence_and_the_temperature_counts() {
        let rolls = |seed| {
            let mut dice = Dice::new(seed);
            (0..64)
                .map(|_| next(&[0.0, 0.1, 0.2], &vocabulary(), None, 1.0, &mut dice).unwrap().0)
                .collect::<Vec<_>>()
        };
        assert_eq!(rolls(7), rolls(7));
        assert_ne!(rolls(7), rolls(8));
        for id in 0..3 {
            assert!(rolls(7).contains(&id), "{id} never comes");
        }
    }

    #[test]
    fn drawing_never_leaves_the_grammar() {
        let machine = yes_or_no();
        let mut dice = Dice::new(3);
        for _ in 0..200 {
            let (id, _) =
                next(&[0.0, 0.0, 8.0, 8.0, 8.0], &vocabulary(), Some(&machine), 2.0, &mut dice).unwrap();
            assert!(id < 2);
        }
    }
}
