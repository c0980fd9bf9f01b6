//! Hugging Face's tokenizer: text to ids and back.

use std::sync::Arc;

use tokenizers::utils::parallelism::set_parallelism;
use tokenizers::{DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, TokenizerImpl};

use crate::boundary::{finish, give, give_ids, guarded, lent, Bytes, Ids};
use crate::model::Model;

/// The library's `Tokenizer`, but for the model.
type Tokenizer = TokenizerImpl<Model, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

pub struct Handle {
    pub library: Tokenizer,
    /// is_special by id, for the added tokens that are.
    special: Vec<u32>,
    largest_id: u32,
    /// Characters of the longest token.
    longest: u64,
    /// By ASCII character: whether it is a token, so that no text loses it in an unknown one.
    alone: [bool; 128],
    /// Every byte beyond ASCII is a token, by GPT-2's letters for bytes or as <0xNN>.
    all_bytes: bool,
}

/// C++ holds ids as int32.
const LARGEST_ID: u32 = i32::MAX as u32;

fn open(json: &[u8]) -> Result<Handle, String> {
    // Batches are the only thing the library would start threads for, and the process's threads are not its to make.
    set_parallelism(false);
    let text = std::str::from_utf8(json).map_err(|e| format!("not UTF-8 at byte {}", e.valid_up_to()))?;
    let mut library: Tokenizer = serde_json::from_str(text).map_err(|e| e.to_string())?;
    // Both belong to batches for training; transformers switches them off before it encodes, too.
    library.with_truncation(None).map_err(|e| e.to_string())?;
    library.with_padding(None);
    let mut largest_id = 0;
    let mut longest = 1;
    let mut too_large = None;
    let mut see = |token: &str, id: u32| {
        longest = longest.max(token.chars().count() as u64);
        largest_id = largest_id.max(id);
        if id > LARGEST_ID {
            too_large = Some(format!("vocabulary: token {token:?} has id {id}; ids go up to {LARGEST_ID}"));
        }
    };
    library.get_model().each_token(&mut see);
    library.get_added_vocabulary().get_vocab().iter().for_each(|(token, id)| see(token, *id));
    if let Some(message) = too_large {
        return Err(message);
    }
    let added = library.get_added_vocabulary().get_added_tokens_decoder();
    let mut special: Vec<u32> = added.iter().filter(|(_, t)| t.special).map(|(id, _)| *id).collect();
    special.sort_unstable();
    let known = |token: String| library.token_to_id(&token).is_some();
    let alone = std::array::from_fn(|c| (c as u8).is_ascii_graphic() && known((c as u8 as char).to_string()));
    let all_bytes =
        (0x80..=0xFF).all(|b| known(format!("<0x{b:02X}>"))) || (0x80..=0xFF).all(|b| known(gpt2_letter(b)));
    Ok(Handle { library, special, largest_id, longest, alone, all_bytes })
}

/// How a byte beyond ASCII stands in a byte-level vocabulary: as the character of its number where that can be seen.
/// Those that cannot follow from U+0122 on, behind 34 that are ASCII.
fn gpt2_letter(byte: u8) -> String {
    let code = match byte {
        0x80..=0xA0 => 0x122 + u32::from(byte - 0x80),
        0xAD => 0x143,
        _ => u32::from(byte),
    };
    char::from_u32(code).map(String::from).unwrap_or_default()
}

/// Normal forms of Unicode make one character of so many at most.
const COMPOSED: u64 = 4;

impl Handle {
    fn encode(&self, text: &[u8], add_special: bool) -> Result<Vec<u32>, String> {
        let text = std::str::from_utf8(text)
            .map_err(|e| format!("the text is not UTF-8: unexpected byte at offset {}", e.valid_up_to()))?;
        let encoding = self.library.encode_fast(text, add_special).map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    /// White space does not count: special tokens may take any amount of it with them.
    fn least_tokens(&self, text: &[u8]) -> u64 {
        let Ok(text) = std::str::from_utf8(text) else { return 0 };
        let mut seen = 0;
        let mut beyond = 0;
        for c in text.chars() {
            if c.is_ascii() {
                seen += u64::from(self.alone[c as usize]);
            } else if self.all_bytes && !c.is_whitespace() {
                beyond += 1;
            }
        }
        (seen + beyond / COMPOSED).div_ceil(self.longest)
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, String> {
        self.library.decode(ids, skip_special).map_err(|e| e.to_string())
    }

    /// The spelling in the vocabulary, whatever the normalizer makes of it.
    fn piece(&self, id: u32) -> Option<String> {
        match self.library.get_added_vocabulary().get_added_tokens_decoder().get(&id) {
            Some(token) => Some(token.content.clone()),
            None => self.library.id_to_token(id),
        }
    }
}

/// # Safety
/// As in bridge.h: `json` has `len` bytes, `out` and `error` are writable.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_open(
    json: *const u8,
    len: usize,
    out: *mut *const Handle,
    error: *mut Bytes,
) -> i32 {
    match guarded(|| open(lent(json, len))) {
        Ok(handle) => {
            *out = Arc::into_raw(Arc::new(handle));
            0
        }
        Err(message) => {
            give(message, error);
            1
        }
    }
}

/// # Safety
/// `handle` came from `knap_tokenizer_open` and is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_close(handle: *const Handle) {
    if !handle.is_null() {
        drop(Arc::from_raw(handle));
    }
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_encode(
    handle: *const Handle,
    text: *const u8,
    len: usize,
    add_special: bool,
    out: *mut Ids,
    error: *mut Bytes,
) -> i32 {
    match guarded(|| (*handle).encode(lent(text, len), add_special)) {
        Ok(ids) => {
            give_ids(&ids, out);
            0
        }
        Err(message) => {
            give(message, error);
            1
        }
    }
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_least_tokens(handle: *const Handle, text: *const u8, len: usize) -> u64 {
    (*handle).least_tokens(lent(text, len))
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_decode(
    handle: *const Handle,
    ids: *const u32,
    len: usize,
    skip_special: bool,
    out: *mut Bytes,
) -> i32 {
    finish(guarded(|| (*handle).decode(lent(ids, len), skip_special)), out)
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_piece(handle: *const Handle, id: u32, out: *mut Bytes) -> i32 {
    finish(guarded(|| (*handle).piece(id).ok_or_else(String::new)), out)
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_id_of(handle: *const Handle, token: *const u8, len: usize) -> i64 {
    let found = guarded(|| {
        let token = std::str::from_utf8(lent(token, len)).map_err(|e| e.to_string())?;
        Ok((*handle).library.token_to_id(token))
    });
    found.ok().flatten().map_or(-1, i64::from)
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_is_special(handle: *const Handle, id: u32) -> bool {
    (*handle).special.binary_search(&id).is_ok()
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_vocab_size(handle: *const Handle) -> u64 {
    (*handle).library.get_vocab_size(true) as u64
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_tokenizer_largest_id(handle: *const Handle) -> u32 {
    (*handle).largest_id
}
