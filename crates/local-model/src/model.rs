//! The network: decoder-only transformers of the Qwen2 and Llama kind out of GGUF files, quantised, on the CPU. Written here and not
//! taken from candle-transformers because its caches cannot be cut back to a common beginning. What is sampled is not its business.

use std::io::{Read, Seek};
use std::sync::Arc;

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::{QMatMul, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{ops, rotary_emb};

/// Why weights cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file says something else than this program can run.
    #[error("the weights cannot be used: {0}")]
    Unusable(String),
    /// The library could not read them.
    #[error("the weights cannot be read: {0}")]
    Candle(#[from] candle_core::Error),
}

/// The weights, ready to run.
pub struct Model {
    embedding: Arc<QTensor>,
    layers: Vec<Layer>,
    norm: Tensor,
    output: QMatMul,
    cos: Tensor,
    sin: Tensor,
    shape: Shape,
}

struct Shape {
    heads: usize,
    kv_heads: usize,
    width: usize,
    context: usize,
    epsilon: f32,
    /// Whether pairs of a rotation are neighbours, as GGUF files of the Llama kind have them.
    interleaved: bool,
}

struct Linear {
    weight: QMatMul,
    bias: Option<Tensor>,
}

impl Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.weight.forward(x)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

struct Layer {
    attention_norm: Tensor,
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    feed_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// Keys and values of what was read, for each layer; can be cut back to any length.
pub struct Cache {
    layers: Vec<(Tensor, Tensor)>,
    length: usize,
}

impl Cache {
    /// How many tokens it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Forgets what is beyond `length`.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl Model {
    /// Reads the weights; `context` bounds how many tokens it will hold at once.
    pub fn load<R: Read + Seek>(
        content: &Content,
        reader: &mut R,
        context: usize,
    ) -> std::result::Result<Self, LoadError> {
        let device = Device::Cpu;
        let kind =
            content.metadata.get("general.architecture").and_then(|kind| kind.to_string().ok()).cloned();
        let kind = kind.unwrap_or_default();
        if kind != "qwen2" && kind != "llama" {
            return Err(LoadError::Unusable(format!("the architecture `{kind}` is neither qwen2 nor llama")));
        }
        let value = |key: &str| content.metadata.get(&format!("{kind}.{key}"));
        let count = |key: &str| {
            let found = value(key).and_then(|value| value.to_u32().ok()).map(|count| count as usize);
            found
                .filter(|count| *count > 0)
                .ok_or_else(|| LoadError::Unusable(format!("`{kind}.{key}` is missing")))
        };
        let real = |key: &str, otherwise: f32| value(key).map_or(Ok(otherwise), Value::to_f32);
        let (heads, kv_heads) = (count("attention.head_count")?, count("attention.head_count_kv")?);
        let size = count("embedding_length")?;
        if size % heads != 0 || heads % kv_heads != 0 || (size / heads) % 2 != 0 {
            return Err(LoadError::Unusable("its heads do not divide its width".to_owned()));
        }
        let width = size / heads;
        let context = context.min(count("context_length")?);
        let epsilon = real("attention.layer_norm_rms_epsilon", 1e-6)?;
        let base = real("rope.freq_base", 10_000.0)?;

        let mut tensor = |name: &str| content.tensor(reader, name, &device);
        let embedding = Arc::new(tensor("token_embd.weight")?);
        let output = if content.tensor_infos.contains_key("output.weight") {
            Arc::new(tensor("output.weight")?)
        } else {
            Arc::clone(&embedding)
        };
        let norm = tensor("output_norm.weight")?.dequantize(&device)?;
        let mut layers = Vec::new();
        for at in 0..count("block_count")? {
            let mut linear = |name: &str| -> Result<Linear> {
                let bias = format!("blk.{at}.{name}.bias");
                let bias = if content.tensor_infos.contains_key(&bias) {
                    Some(tensor(&bias)?.dequantize(&device)?)
                } else {
                    None
                };
                Ok(Linear {
                    weight: QMatMul::from_qtensor(tensor(&format!("blk.{at}.{name}.weight"))?)?,
                    bias,
                })
            };
            let (query, key, value) = (linear("attn_q")?, linear("attn_k")?, linear("attn_v")?);
            let out = linear("attn_output")?;
            let (gate, up, down) = (linear("ffn_gate")?, linear("ffn_up")?, linear("ffn_down")?);
            let mut plain = |name: &str| tensor(&format!("blk.{at}.{name}.weight"))?.dequantize(&device);
            let (attention_norm, feed_norm) = (plain("attn_norm")?, plain("ffn_norm")?);
            layers.push(Layer { attention_norm, query, key, value, out, feed_norm, gate, up, down });
        }
        let (cos, sin) = rotations(width, context, base, &device)?;
        let shape = Shape { heads, kv_heads, width, context, epsilon, interleaved: kind == "llama" };
        Ok(Self { embedding, layers, norm, output: QMatMul::from_arc(output)?, cos, sin, shape })
    }

    /// How many tokens it holds at most.
    pub fn context(&self) -> usize {
        self.shape.context
    }

    /// An empty cache. Memory is used as it fills.
    pub fn cache(&self) -> Result<Cache> {
        let Shape { kv_heads, width, context, .. } = self.shape;
        let zeros = || Tensor::zeros((kv_heads, context, width), DType::F32, &Device::Cpu);
        let layers = self.layers.iter().map(|_| Ok((zeros()?, zeros()?))).collect::<Result<_>>()?;
        Ok(Cache { layers, length: 0 })
    }

    /// Reads `tokens` after what the cache has. Returns how likely each token is next, as logits.
    pub fn forward(&self, tokens: &[u32], cache: &mut Cache) -> Result<Vec<f32>> {
        let (count, begin) = (tokens.len(), cache.length);
        let end = begin + count;
        if count == 0 || end > self.shape.context {
            candle_core::bail!("{count} tokens after {begin} do not fit into {}", self.shape.context);
        }
        let device = Device::Cpu;
        let ids = Tensor::new(tokens, &device)?;
        let mut x = self.embedding.embedding(&ids)?.unsqueeze(0)?;
        let (cos, sin) = (self.cos.narrow(0, begin, count)?, self.sin.narrow(0, begin, count)?);
        let mask = if count == 1 { None } else { Some(mask(begin, count, &device)?) };
        for (layer, (keys, values)) in self.layers.iter().zip(&cache.layers) {
            let normed = ops::rms_norm(&x, &layer.attention_norm, self.shape.epsilon)?;
            let attended = self.attend(layer, &normed, (keys, values), begin, (&cos, &sin), mask.as_ref())?;
            x = (x + attended)?;
            let normed = ops::rms_norm(&x, &layer.feed_norm, self.shape.epsilon)?;
            let gated = (layer.gate.forward(&normed)?.silu()? * layer.up.forward(&normed)?)?;
            x = (x + layer.down.forward(&gated)?)?;
        }
        cache.length = end;
        let last = x.narrow(1, count - 1, 1)?.contiguous()?;
        let last = ops::rms_norm(&last, &self.norm, self.shape.epsilon)?;
        self.output.forward(&last)?.flatten_all()?.to_vec1()
    }

    fn attend(
        &self,
        layer: &Layer,
        x: &Tensor,
        (keys, values): (&Tensor, &Tensor),
        begin: usize,
        (cos, sin): (&Tensor, &Tensor),
        mask: Option<&Tensor>,
    ) -> Result<Tensor> {
        let Shape { heads, kv_heads, width, interleaved, .. } = self.shape;
        let count = x.dim(1)?;
        let split =
            |y: Tensor, heads: usize| y.reshape((1, count, heads, width))?.transpose(1, 2)?.contiguous();
        let turn = |y: Tensor| {
            if interleaved { rotary_emb::rope_i(&y, cos, sin) } else { rotary_emb::rope(&y, cos, sin) }
        };
        let query = turn(split(layer.query.forward(x)?, heads)?)?;
        let key = turn(split(layer.key.forward(x)?, kv_heads)?)?.squeeze(0)?.contiguous()?;
        let value = split(layer.value.forward(x)?, kv_heads)?.squeeze(0)?.contiguous()?;
        keys.slice_set(&key, 1, begin)?;
        values.slice_set(&value, 1, begin)?;
        let end = begin + count;
        let (keys, values) = (keys.narrow(1, 0, end)?, values.narrow(1, 0, end)?);
        // Queries that share keys stand one below the other, so that keys need not be repeated.
        let group = heads / kv_heads;
        let query = query.reshape((kv_heads, group * count, width))?;
        let scale = f64::from(u32::try_from(width).unwrap_or(1)).sqrt().recip();
        let mut scores = (query.matmul(&keys.transpose(1, 2)?)? * scale)?;
        if let Some(mask) = mask {
            let open = scores.reshape((kv_heads, group, count, end))?;
            scores = open.broadcast_add(mask)?.reshape((kv_heads, group * count, end))?;
        }
        let attended = ops::softmax_last_dim(&scores)?.matmul(&values.contiguous()?)?;
        let joined = attended.reshape((heads, count, width))?.transpose(0, 1)?.contiguous()?;
        layer.out.forward(&joined.reshape((1, count, heads * width))?)
    }
}

/// Nobody sees what comes later.
fn mask(begin: usize, count: usize, device: &Device) -> Result<Tensor> {
    let end = begin + count;
    let cells: Vec<f32> = (0..count)
        .flat_map(|row| {
            (0..end).map(move |column| if column > begin + row { f32::NEG_INFINITY } else { 0.0 })
        })
        .collect();
    Tensor::from_vec(cells, (count, end), device)
}

fn rotations(width: usize, context: usize, base: f32, device: &Device) -> Result<(Tensor, Tensor)> {
    let count = |number: usize| f32::from(u16::try_from(number).unwrap_or(u16::MAX));
    let steps: Vec<f32> = (0..width / 2).map(|at| base.powf(-2.0 * count(at) / count(width))).collect();
    let places: Vec<f32> = (0..context).map(count).collect();
    let angles = Tensor::from_vec(places, (context, 1), device)?.broadcast_mul(&Tensor::from_vec(
        steps,
        (1, width / 2),
        device,
    )?)?;
    Ok((angles.cos()?, angles.sin()?))
}
