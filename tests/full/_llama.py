"""llama.cpp through its C interface (llama-cpp-python 0.3.36): no sampler, no template. Shared by tests and comparisons."""
import ctypes

import llama_cpp as ll


class Llama:
    """One model with one context of `ctx` tokens, read in batches of up to all of them; KV in f16 unless f32_kv."""

    def __init__(self, path, ctx, threads, flash=False, f32_kv=False):
        self.silent = ll.llama_log_callback(lambda *_: None)
        ll.llama_log_set(self.silent, ctypes.c_void_p(0))
        ll.llama_backend_init()
        self.model = ll.llama_model_load_from_file(str(path).encode(), ll.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        self.vocab = ll.llama_model_get_vocab(self.model)
        params = ll.llama_context_default_params()
        params.n_ctx, params.n_batch = ctx, ctx
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = ll.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else ll.LLAMA_FLASH_ATTN_TYPE_DISABLED
        if f32_kv:
            params.type_k = params.type_v = 0  # GGML_TYPE_F32
        self.ctx = ll.llama_init_from_model(self.model, params)
        self.batch = ll.llama_batch_init(ctx, 0, 1)

    def tokenize(self, text):
        data = text.encode()
        out = (ll.llama_token * (len(data) + 16))()
        n = ll.llama_tokenize(self.vocab, data, len(data), out, len(out), True, True)
        if n < 0:
            raise SystemExit("llama.cpp cannot tokenize")
        return list(out[:n])

    def text(self, ids, remove_special=False):
        array = (ll.llama_token * len(ids))(*ids)
        out = ctypes.create_string_buffer(len(ids) * 64 + 64)
        n = ll.llama_detokenize(self.vocab, array, len(ids), out, len(out), remove_special, True)
        return out.raw[:n].decode("utf-8", "replace")

    def clear(self):
        ll.llama_memory_clear(ll.llama_get_memory(self.ctx), True)

    def decode(self, ids, past, wanted):
        """Computes ids from position `past` on; pointers to the logits of those in `wanted` (indices into ids)."""
        b = self.batch
        b.n_tokens = len(ids)
        for i, token in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq_id[i] = token, past + i, 1
            b.seq_id[i][0] = 0
            b.logits[i] = i in wanted
        if ll.llama_decode(self.ctx, b) != 0:
            raise SystemExit("llama_decode failed")
        # Asking for logits also waits until they are there.
        return [ll.llama_get_logits_ith(self.ctx, i) for i in wanted]
