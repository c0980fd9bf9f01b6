//! A line editor for `chat`. Works in UTF-8 whatever the locale says.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Editor, Helper};

use crate::boundary::{give, guarded, lent, Bytes};

/// A line that ends in a backslash goes on.
struct Continued;

impl Validator for Continued {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}
impl Completer for Continued {
    type Candidate = String;
}
impl Highlighter for Continued {}
impl Hinter for Continued {
    type Hint = String;
}
impl Helper for Continued {}

pub struct LineEditor {
    editor: Editor<Continued, DefaultHistory>,
    history: Option<PathBuf>,
}

const LINE: i32 = 0;
const INTERRUPTED: i32 = 1;
const END: i32 = 2;
const FAILED: i32 = 3;
const NOT_UTF8: i32 = 4;

fn open(history: &[u8], capacity: usize) -> Result<LineEditor, String> {
    let config = Config::builder()
        .max_history_size(capacity)
        .and_then(|c| c.history_ignore_dups(true))
        .map_err(|e| e.to_string())?
        .history_ignore_space(true)
        .bracketed_paste(true)
        .build();
    let mut editor = Editor::with_config(config).map_err(|e| e.to_string())?;
    editor.set_helper(Some(Continued));
    let history = match history {
        [] => None,
        path => Some(PathBuf::from(OsStr::from_bytes(path))),
    };
    if let Some(path) = &history {
        // A history that is absent or unreadable is an empty one: losing it must not keep anyone from talking.
        let _ = editor.load_history(path);
    }
    Ok(LineEditor { editor, history })
}

impl LineEditor {
    fn read(&mut self, prompt: &str) -> Result<(i32, String), String> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok((LINE, line.replace("\\\n", "\n"))),
            Err(ReadlineError::Interrupted) => Ok((INTERRUPTED, String::new())),
            Err(ReadlineError::Eof) => Ok((END, String::new())),
            Err(ReadlineError::Io(e)) if e.kind() == ErrorKind::InvalidData => Ok((NOT_UTF8, String::new())),
            Err(e) => Err(e.to_string()),
        }
    }

    fn remember(&mut self, line: &str) -> Result<(), String> {
        let added = self.editor.add_history_entry(line).map_err(|e| e.to_string())?;
        match &self.history {
            Some(path) if added => self.editor.append_history(path).map_err(|e| e.to_string()),
            _ => Ok(()),
        }
    }
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_line_editor_open(
    history: *const u8,
    len: usize,
    capacity: usize,
    out: *mut *mut LineEditor,
    error: *mut Bytes,
) -> i32 {
    match guarded(|| open(lent(history, len), capacity)) {
        Ok(editor) => {
            *out = Box::into_raw(Box::new(editor));
            0
        }
        Err(message) => {
            give(message, error);
            1
        }
    }
}

/// # Safety
/// `editor` came from `knap_line_editor_open` and is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn knap_line_editor_close(editor: *mut LineEditor) {
    if !editor.is_null() {
        drop(Box::from_raw(editor));
    }
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_line_editor_read(
    editor: *mut LineEditor,
    prompt: *const u8,
    len: usize,
    out: *mut Bytes,
) -> i32 {
    match guarded(|| (*editor).read(&String::from_utf8_lossy(lent(prompt, len)))) {
        Ok((status, line)) => {
            give(line, out);
            status
        }
        Err(message) => {
            give(message, out);
            FAILED
        }
    }
}

/// # Safety
/// As in bridge.h.
#[no_mangle]
pub unsafe extern "C" fn knap_line_editor_remember(
    editor: *mut LineEditor,
    line: *const u8,
    len: usize,
    error: *mut Bytes,
) -> i32 {
    match guarded(|| (*editor).remember(&String::from_utf8_lossy(lent(line, len)))) {
        Ok(()) => 0,
        Err(message) => {
            give(message, error);
            1
        }
    }
}
