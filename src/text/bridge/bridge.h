/* The C ABI of the Rust static library in this folder (Cargo.toml, src). Only the .cc files of text include it.
 * Every function that can fail returns 0 for success; a panic inside Rust is a failure with a message.
 * Memory handed out belongs to Rust: give it back with knap_free / knap_free_ids, once. Text is UTF-8, never
 * null-terminated. A tokenizer may be used from several threads at once; a stream or an editor from one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint8_t* data;
  size_t len;
} knap_bytes;

typedef struct {
  uint32_t* data;
  size_t len;
} knap_ids;

void knap_free(knap_bytes bytes);
void knap_free_ids(knap_ids ids);

/* Called when memory cannot be had, before Rust aborts; it should end the process, and must not unwind. Once. */
void knap_when_out_of_memory(void (*tell)(void));

/* Tokenizer. `json` is the text of a tokenizer.json. On failure `error` (or `out`, where there is no error) holds the
 * message. */
typedef struct knap_tokenizer knap_tokenizer;
int32_t knap_tokenizer_open(const char* json, size_t len, const knap_tokenizer** out, knap_bytes* error);
void knap_tokenizer_close(const knap_tokenizer* tokenizer);
int32_t knap_tokenizer_encode(const knap_tokenizer* tokenizer, const char* text, size_t len, bool add_special,
                              knap_ids* out, knap_bytes* error);
uint64_t knap_tokenizer_least_tokens(const knap_tokenizer* tokenizer, const char* text, size_t len);
int32_t knap_tokenizer_decode(const knap_tokenizer* tokenizer, const uint32_t* ids, size_t len, bool skip_special,
                              knap_bytes* out);
int32_t knap_tokenizer_piece(const knap_tokenizer* tokenizer, uint32_t id, knap_bytes* out);  /* 1: no such id */
int64_t knap_tokenizer_id_of(const knap_tokenizer* tokenizer, const char* token, size_t len); /* -1: no such token */
bool knap_tokenizer_is_special(const knap_tokenizer* tokenizer, uint32_t id);
uint64_t knap_tokenizer_vocab_size(const knap_tokenizer* tokenizer);
uint32_t knap_tokenizer_largest_id(const knap_tokenizer* tokenizer);

/* Streaming decode: the outputs of push and finish, joined, equal knap_tokenizer_decode of all ids. */
typedef struct knap_stream knap_stream;
knap_stream* knap_stream_open(const knap_tokenizer* tokenizer, bool skip_special);
void knap_stream_close(knap_stream* stream);
int32_t knap_stream_push(knap_stream* stream, uint32_t id, knap_bytes* out);
int32_t knap_stream_finish(knap_stream* stream, knap_bytes* out);

/* Chat template. `variables` is a JSON object; `clock` is what strftime_now() sees ("2026-07-01T12:30:00"). */
int32_t knap_template_render(const char* source, size_t source_len, const char* variables, size_t variables_len,
                             const char* clock, size_t clock_len, knap_bytes* out);

/* Line editor. `history` is a file's path, or empty for none. read returns 0 with a line in `out`, 1 for Ctrl-C,
 * 2 for Ctrl-D or the end of input, 3 with a message in `out`, 4 when what was typed is not UTF-8. */
typedef struct knap_line_editor knap_line_editor;
int32_t knap_line_editor_open(const char* history, size_t len, size_t capacity, knap_line_editor** out,
                              knap_bytes* error);
void knap_line_editor_close(knap_line_editor* editor);
int32_t knap_line_editor_read(knap_line_editor* editor, const char* prompt, size_t len, knap_bytes* out);
int32_t knap_line_editor_remember(knap_line_editor* editor, const char* line, size_t len, knap_bytes* error);

#ifdef __cplusplus
}
#endif
