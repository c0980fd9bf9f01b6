//! Decoding ids as they come. What has been given out plus what `finish` gives equals the library's decode() of all
//! ids, and no half character is given out.
//!
//! The library's own stream re-decodes a window and compares prefixes, which goes wrong where a text really holds
//! U+FFFD. Here the decoder's own steps are run one token at a time instead, each keeping back only what later tokens
//! can still change. A decoder made of steps in an order that is not known here is not streamed: its text comes whole,
//! at the end.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::Decoder;

use crate::boundary::{finish, guarded, Bytes};
use crate::tokenizer::Handle;

/// A step that maps tokens to tokens, in order.
enum Step {
    /// Each token by itself, through the library.
    Each(DecoderWrapper),
    /// Metaspace and WordPiece: the first token is unlike the later ones.
    FirstDiffers { decoder: DecoderWrapper, seen: bool },
    /// `<0xE4>` and its like: a run of byte tokens is text if all of it is UTF-8, and a run of U+FFFD otherwise.
    Bytes { run: Vec<u8> },
}

/// How the tokens become one text.
enum Join {
    Plain,
    /// No decoder: spaces between the tokens.
    Spaces {
        seen: bool,
    },
    /// Fuse, then Strip from the start: `left` leading `content`s may still be dropped.
    StripStart {
        content: char,
        left: usize,
    },
    /// ByteLevel: bytes of the tokens, lossily UTF-8; an unfinished character is kept.
    ByteLevel {
        pending: Vec<u8>,
    },
}

enum Plan {
    Steps { steps: Vec<Step>, join: Join },
    Whole { ids: Vec<u32> },
}

pub struct Stream {
    tokenizer: Arc<Handle>,
    skip_special: bool,
    plan: Plan,
}

/// GPT-2's printable stand-ins for the 256 bytes: printable Latin-1 stands for itself, the others count up from U+0100.
static BYTE_OF: LazyLock<HashMap<char, u8>> = LazyLock::new(|| {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 0x100;
    (0..=255u8)
        .map(|b| {
            if printable(b) {
                (char::from(b), b)
            } else {
                next += 1;
                (char::from_u32(next - 1).unwrap_or(' '), b)
            }
        })
        .collect()
});

fn plan_for(decoder: Option<&DecoderWrapper>) -> Plan {
    let Some(decoder) = decoder else {
        return Plan::Steps { steps: vec![], join: Join::Spaces { seen: false } };
    };
    let whole = || Plan::Whole { ids: vec![] };
    let mut parts = vec![];
    flatten(decoder, &mut parts);
    let mut steps = vec![];
    let mut parts = parts.into_iter().peekable();
    while let Some(part) = parts.next() {
        match &part {
            DecoderWrapper::Replace(_) => steps.push(Step::Each(part)),
            DecoderWrapper::Metaspace(_) | DecoderWrapper::WordPiece(_) => {
                steps.push(Step::FirstDiffers { decoder: part, seen: false })
            }
            DecoderWrapper::ByteFallback(_) => steps.push(Step::Bytes { run: vec![] }),
            DecoderWrapper::ByteLevel(_) => {
                if parts.peek().is_some() {
                    return whole();
                }
                return Plan::Steps { steps, join: Join::ByteLevel { pending: vec![] } };
            }
            DecoderWrapper::Fuse(_) => {
                let Some(after) = parts.next() else {
                    return Plan::Steps { steps, join: Join::Plain };
                };
                let json = serde_json::to_value(&after).unwrap_or(Value::Null);
                let content = json["content"].as_str().and_then(|s| s.chars().next());
                let (start, stop) = (json["start"].as_u64(), json["stop"].as_u64());
                return match (&after, content, start, stop, parts.peek()) {
                    (DecoderWrapper::Strip(_), Some(content), Some(start), Some(0), None) => {
                        Plan::Steps { steps, join: Join::StripStart { content, left: start as usize } }
                    }
                    _ => whole(),
                };
            }
            _ => return whole(),
        }
    }
    Plan::Steps { steps, join: Join::Plain }
}

fn flatten(decoder: &DecoderWrapper, out: &mut Vec<DecoderWrapper>) {
    match decoder {
        DecoderWrapper::Sequence(sequence) => sequence.get_decoders().iter().for_each(|d| flatten(d, out)),
        single => out.push(single.clone()),
    }
}

impl Step {
    fn push(&mut self, token: String, out: &mut Vec<String>) -> Result<(), String> {
        match self {
            Step::Each(decoder) => out.extend(decoder.decode_chain(vec![token]).map_err(|e| e.to_string())?),
            Step::FirstDiffers { decoder, seen } => {
                let tokens = if *seen { vec![String::new(), token] } else { vec![token] };
                let decoded = decoder.decode_chain(tokens).map_err(|e| e.to_string())?;
                out.extend(decoded.into_iter().skip(usize::from(*seen)));
                *seen = true;
            }
            Step::Bytes { run } => {
                let hex = token.strip_prefix("<0x").and_then(|t| t.strip_suffix('>')).filter(|t| t.len() == 2);
                match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
                    Some(byte) => run.push(byte),
                    None => {
                        flush(run, out);
                        out.push(token);
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<String>) {
        if let Step::Bytes { run } = self {
            flush(run, out);
        }
    }
}

fn flush(run: &mut Vec<u8>, out: &mut Vec<String>) {
    if run.is_empty() {
        return;
    }
    match String::from_utf8(std::mem::take(run)) {
        Ok(text) => out.push(text),
        Err(e) => out.extend(vec!["\u{FFFD}".to_string(); e.as_bytes().len()]),
    }
}

impl Join {
    fn push(&mut self, token: String, out: &mut String) {
        match self {
            Join::Plain => out.push_str(&token),
            Join::Spaces { seen } => {
                if *seen {
                    out.push(' ');
                }
                *seen = true;
                out.push_str(&token);
            }
            Join::StripStart { content, left } => {
                let mut rest = token.as_str();
                while *left > 0 && !rest.is_empty() {
                    match rest.strip_prefix(*content) {
                        Some(after) => {
                            rest = after;
                            *left -= 1;
                        }
                        None => *left = 0,
                    }
                }
                out.push_str(rest);
            }
            Join::ByteLevel { pending } => {
                let bytes: Option<Vec<u8>> = token.chars().map(|c| BYTE_OF.get(&c).copied()).collect();
                pending.extend(bytes.unwrap_or_else(|| token.into_bytes()));
                let mut done = 0;
                for chunk in pending.utf8_chunks() {
                    out.push_str(chunk.valid());
                    done += chunk.valid().len();
                    if chunk.invalid().is_empty() {
                        continue;
                    }
                    // The tail may be the beginning of a character: from_utf8 tells an unfinished one by error_len.
                    let unfinished = done + chunk.invalid().len() == pending.len()
                        && std::str::from_utf8(chunk.invalid()).is_err_and(|e| e.error_len().is_none());
                    if unfinished {
                        break;
                    }
                    out.push('\u{FFFD}');
                    done += chunk.invalid().len();
                }
                pending.drain(..done);
            }
        }
    }

    fn finish(&mut self, out: &mut String) {
        if let Join::ByteLevel { pending } = self {
            out.push_str(&String::from_utf8_lossy(pending));
            pending.clear();
        }
    }
}

impl Stream {
    fn push(&mut self, id: u32) -> Result<String, String> {
        let (steps, join) = match &mut self.plan {
            Plan::Whole { ids } => {
                ids.push(id);
                return Ok(String::new());
            }
            Plan::Steps { steps, join } => (steps, join),
        };
        let library = &self.tokenizer.library;
        let added = library.get_added_vocabulary();
        let Some(token) = library.id_to_token(id) else {
            return Ok(String::new());
        };
        if self.skip_special && added.is_special_token(&token) {
            return Ok(String::new());
        }
        let mut tokens = vec![token];
        for step in steps.iter_mut() {
            let mut out = vec![];
            for token in tokens {
                step.push(token, &mut out)?;
            }
            tokens = out;
        }
        let mut text = String::new();
        tokens.into_iter().for_each(|t| join.push(t, &mut text));
        Ok(text)
    }

    fn finish(&mut self) -> Result<String, String> {
        let (steps, join) = match &mut self.plan {
            Plan::Whole { ids } => return self.tokenizer.decode(&std::mem::take(ids), self.skip_special),
            Plan::Steps { steps, join } => (steps, join),
        };
        let mut text = String::new();
        for i in 0..steps.len() {
            let mut tokens = vec![];
            steps[i].finish(&mut tokens);
            for step in &mut steps[i + 1..] {
                let mut out = vec![];
                for token in tokens {
                    step.push(token, &mut out)?;
                }
                tokens = out;
            }
            tokens.into_iter().for_each(|t| join.push(t, &mut text));
        }
        join.finish(&mut text);
        Ok(text)
    }
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_stream_open(handle: *const Handle, skip_special: bool) -> *mut Stream {
    Arc::increment_strong_count(handle);
    let tokenizer = Arc::from_raw(handle);
    let plan = guarded(|| Ok(plan_for(tokenizer.library.get_decoder()))).unwrap_or(Plan::Whole { ids: vec![] });
    Box::into_raw(Box::new(Stream { tokenizer, skip_special, plan }))
}

/// # Safety
/// `stream` came from `knap_stream_open` and is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn knap_stream_close(stream: *mut Stream) {
    if !stream.is_null() {
        drop(Box::from_raw(stream));
    }
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_stream_push(stream: *mut Stream, id: u32, out: *mut Bytes) -> i32 {
    finish(guarded(|| (*stream).push(id)), out)
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_stream_finish(stream: *mut Stream, out: *mut Bytes) -> i32 {
    finish(guarded(|| (*stream).finish()), out)
}
