//! Chat templates at the C boundary; what they mean is in jinja/.

use crate::boundary::{finish, guarded, lent, Bytes};
use crate::jinja;

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_template_render(
    source: *const u8,
    source_len: usize,
    variables: *const u8,
    variables_len: usize,
    clock: *const u8,
    clock_len: usize,
    out: *mut Bytes,
) -> i32 {
    let text = |data, len, what: &str| {
        std::str::from_utf8(lent(data, len)).map_err(|e| format!("{what} is not UTF-8 at byte {}", e.valid_up_to()))
    };
    finish(
        text(source, source_len, "the template").and_then(|source| {
            let variables = text(variables, variables_len, "the list of variables")?;
            let clock = text(clock, clock_len, "the clock")?;
            jinja::with_stack(|| guarded(|| jinja::render(source, variables, clock)))
        }),
        out,
    )
}
