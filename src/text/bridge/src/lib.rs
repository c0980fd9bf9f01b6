//! What Knapsack takes from the Rust world, behind the C ABI of ../bridge.h: tokenizers, chat templates, line editing.
//! One static library, so that the C++ side links the Rust runtime once. llguidance joins here.
//! Not here: policy. Which file is opened, which exit code an error gets, is decided in C++.

mod boundary;
mod bpe;
mod jinja;
mod line_editor;
mod memory;
mod model;
mod stream;
mod template;
mod tokenizer;
