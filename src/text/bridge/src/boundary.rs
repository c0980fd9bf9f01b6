//! Crossing between C++ and Rust: byte buffers, and panics that become error messages.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::Once;

/// `knap_bytes` of bridge.h: memory of Rust's, given back through `knap_free`.
#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    len: usize,
}

impl Bytes {
    fn from_vec(bytes: Vec<u8>) -> Self {
        let boxed = bytes.into_boxed_slice();
        let len = boxed.len();
        Bytes { data: Box::into_raw(boxed) as *mut u8, len }
    }
}

/// `knap_ids` of bridge.h.
#[repr(C)]
pub struct Ids {
    data: *mut u32,
    len: usize,
}

/// # Safety
/// `bytes` was filled by this library and is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn knap_free(bytes: Bytes) {
    if !bytes.data.is_null() {
        drop(Box::from_raw(ptr::slice_from_raw_parts_mut(bytes.data, bytes.len)));
    }
}

/// # Safety
/// `ids` was filled by this library and is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn knap_free_ids(ids: Ids) {
    if !ids.data.is_null() {
        drop(Box::from_raw(ptr::slice_from_raw_parts_mut(ids.data, ids.len)));
    }
}

/// The bytes C++ lends for the time of a call. A null pointer with length 0 is an empty slice.
///
/// # Safety
/// `data` points to `len` readable bytes, or `len` is 0.
pub unsafe fn lent<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, len)
    }
}

/// # Safety
/// `out` is null or writable.
pub unsafe fn give(text: impl Into<Vec<u8>>, out: *mut Bytes) {
    if !out.is_null() {
        out.write(Bytes::from_vec(text.into()));
    }
}

/// # Safety
/// `out` is null or writable.
pub unsafe fn give_ids(ids: &[u32], out: *mut Ids) {
    if !out.is_null() {
        let boxed: Box<[u32]> = ids.into();
        let len = boxed.len();
        out.write(Ids { data: Box::into_raw(boxed) as *mut u32, len });
    }
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics of the libraries below are caught, so the default hook's lines on stderr would only confuse.
fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place =
                info.location().map(|l| format!(" ({}:{})", l.file().rsplit('/').next().unwrap_or(""), l.line()));
            let text = describe(info.payload());
            PANIC.with(|p| *p.borrow_mut() = format!("{text}{}", place.unwrap_or_default()));
        }));
    });
}

fn describe(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "unknown panic".to_string()
    }
}

/// Runs `work`; a panic inside it becomes an error.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    keep_panics_quiet();
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(_) => Err(format!("the library gave up: {}", PANIC.with(|p| std::mem::take(&mut *p.borrow_mut())))),
    }
}

/// 0 and the result's text in `out`, or 1 and the message there.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn finish(result: Result<String, String>, out: *mut Bytes) -> i32 {
    match result {
        Ok(text) => {
            give(text, out);
            0
        }
        Err(message) => {
            give(message, out);
            1
        }
    }
}
