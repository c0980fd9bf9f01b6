//! Hugging Face's tokenizer: text to ids and back.

use std::sync::Arc;

use tokenizers::utils::parallelism::set_parallelism;
use tokenizers::Tokenizer;

use crate::boundary::{finish, give, give_ids, guarded, lent, Bytes, Ids};

pub struct Handle {
    pub library: Tokenizer,
    /// is_special by id, for the added tokens that are.
    special: Vec<u32>,
    largest_id: u32,
}

/// C++ holds ids as int32.
const LARGEST_ID: u32 = i32::MAX as u32;

fn open(json: &[u8]) -> Result<Handle, String> {
    // Batches are the only thing the library would start threads for, and the process's threads are not its to make.
    set_parallelism(false);
    let text = std::str::from_utf8(json).map_err(|e| format!("not UTF-8 at byte {}", e.valid_up_to()))?;
    let mut library = Tokenizer::from_bytes(text.as_bytes()).map_err(|e| e.to_string())?;
    // Both belong to batches for training; transformers switches them off before it encodes, too.
    library.with_truncation(None).map_err(|e| e.to_string())?;
    library.with_padding(None);
    let mut largest_id = 0;
    for (token, id) in library.get_vocab(true) {
        if id > LARGEST_ID {
            return Err(format!("vocabulary: token {token:?} has id {id}; ids go up to {LARGEST_ID}"));
        }
        largest_id = largest_id.max(id);
    }
    let added = library.get_added_vocabulary().get_added_tokens_decoder();
    let mut special: Vec<u32> = added.iter().filter(|(_, t)| t.special).map(|(id, _)| *id).collect();
    special.sort_unstable();
    Ok(Handle { library, special, largest_id })
}

impl Handle {
    fn encode(&self, text: &[u8], add_special: bool) -> Result<Vec<u32>, String> {
        let text = std::str::from_utf8(text)
            .map_err(|e| format!("the text is not UTF-8: unexpected byte at offset {}", e.valid_up_to()))?;
        let encoding = self.library.encode_fast(text, add_special).map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().to_vec())
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
