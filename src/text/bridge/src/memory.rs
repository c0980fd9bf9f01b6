//! Memory that cannot be had. Rust would abort; here the host is told first, which ends the process as it ends for
//! the same reason elsewhere. An allocator must not unwind, so an error cannot be returned instead.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;

static TELL_HOST: OnceLock<extern "C" fn()> = OnceLock::new();

struct Memory;

fn told(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        if let Some(tell) = TELL_HOST.get() {
            tell();
        }
    }
    memory
}

// SAFETY: the system's allocator; what it answers is only looked at.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        told(System.alloc(layout))
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        told(System.alloc_zeroed(layout))
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        told(System.realloc(memory, layout, size))
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        System.dealloc(memory, layout)
    }
}

#[global_allocator]
static MEMORY: Memory = Memory;

#[no_mangle]
pub extern "C" fn knap_when_out_of_memory(tell: extern "C" fn()) {
    let _ = TELL_HOST.set(tell); // the first one stays
}
