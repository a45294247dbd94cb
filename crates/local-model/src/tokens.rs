//! Tokens and their bytes: the tokenizer out of the weights, and what each token writes.

use std::collections::BTreeMap;

use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::tokenizer::TokenizerFromGguf;
use tokenizers::Tokenizer;

use crate::model::LoadError;

/// The bytes of each token, and the tokens that end an answer.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    bytes: Vec<Vec<u8>>,
    ends: Vec<u32>,
}

impl Vocabulary {
    /// Control tokens have no bytes.
    pub fn new(bytes: Vec<Vec<u8>>, ends: Vec<u32>) -> Self {
        Self { bytes, ends }
    }

    /// What a token writes; nothing for control tokens.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.get(id as usize).map_or(&[], Vec::as_slice)
    }

    /// Whether it ends an answer.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }
}

/// Text to tokens.
pub struct Tokens {
    tokenizer: Tokenizer,
    /// Of each token.
    pub vocabulary: Vocabulary,
}

impl Tokens {
    /// Reads the tokenizer that the weights bring.
    pub fn load(content: &Content) -> Result<Self, LoadError> {
        let wrong = |what: String| LoadError::Unusable(what);
        let mut tokenizer = Tokenizer::from_gguf(content)?;
        // What users write stays text, also where it looks like a control token.
        tokenizer.set_encode_special_tokens(true);
        let list = |key: &str| content.metadata.get(key).and_then(|value| value.to_vec().ok());
        let names = list("tokenizer.ggml.tokens").ok_or_else(|| wrong("it has no tokens".to_owned()))?;
        let kinds = list("tokenizer.ggml.token_type");
        let alphabet = alphabet();
        let mut bytes = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            let name = name.to_string()?;
            let kind = kinds.and_then(|kinds| kinds.get(at)).and_then(|kind| kind.to_i32().ok());
            // 1 is a normal token (`llama_token_type`).
            let normal = kind.is_none_or(|kind| kind == 1);
            let read: Option<Vec<u8>> = name.chars().map(|letter| alphabet.get(&letter).copied()).collect();
            bytes.push(read.filter(|_| normal).unwrap_or_default());
        }
        let mut ends: Vec<u32> =
            ["<|im_end|>", "<|endoftext|>"].iter().filter_map(|name| tokenizer.token_to_id(name)).collect();
        if let Some(end) = content.metadata.get("tokenizer.ggml.eos_token_id").and_then(|id| id.to_u32().ok())
        {
            ends.push(end);
        }
        if ends.is_empty() {
            return Err(wrong("it names no token that ends an answer".to_owned()));
        }
        Ok(Self { tokenizer, vocabulary: Vocabulary::new(bytes, ends) })
    }

    /// The tokens of a text, none of them a control token.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        // Fast: positions are not needed.
        let encoded = self.tokenizer.encode_fast(text, false).map_err(|error| error.to_string())?;
        Ok(encoded.get_ids().to_vec())
    }

    /// The control token of this name.
    pub fn control(&self, name: &str) -> Option<u32> {
        self.tokenizer.token_to_id(name)
    }
}

/// How GPT-2 writes bytes as letters: printable ones as they are, others from U+0100 on.
fn alphabet() -> BTreeMap<char, u8> {
    let mut next = 0x100;
    (0..=u8::MAX)
        .filter_map(|byte| {
            let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
            let letter = if printable {
                char::from(byte)
            } else {
                next += 1;
                char::from_u32(next - 1)?
            };
            Some((letter, byte))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_has_every_byte_once() {
        let alphabet = alphabet();
        assert_eq!(alphabet.len(), 256);
        assert_eq!(alphabet.get(&'Ġ'), Some(&b' '));
        assert_eq!(alphabet.get(&'Ċ'), Some(&b'\n'));
        assert_eq!(alphabet.get(&'a'), Some(&b'a'));
    }
}
