"""llama.cpp, as PyPI's llama-cpp-python compiled for this machine. Settings: fa=on, fa=off (flash attention)."""

import importlib.metadata
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests/full"))
import llama_cpp as ll  # noqa: E402
from _llama import Llama  # noqa: E402
from worker import ids, serve  # noqa: E402


def open_peer(options):
    peer = Llama(options.model, options.ctx, options.threads, flash=options.setting == "fa=on")
    vocab = ll.llama_vocab_n_tokens(peer.vocab)
    held = 0

    def hold(depth):
        """The context holds `depth` tokens, computed only where they are not there yet."""
        nonlocal held
        memory = ll.llama_get_memory(peer.ctx)
        ll.llama_memory_seq_rm(memory, 0, min(depth, held), -1)
        held = min(depth, held)
        if held < depth:
            peer.decode(ids(depth, vocab)[held:], held, [depth - held - 1])
            held = depth

    def measure(prompt, gen, depth):
        nonlocal held
        hold(depth)
        tokens = ids(prompt or gen, vocab)
        began = time.perf_counter()
        if prompt:
            peer.decode(tokens, depth, [prompt - 1])
        else:
            for i, token in enumerate(tokens):
                peer.decode([token], depth + i, [0])
        seconds = time.perf_counter() - began
        held = depth + len(tokens)
        return len(tokens) / seconds

    version = importlib.metadata.version("llama-cpp-python")
    return {"peer": "llama.cpp", "version": f"llama-cpp-python {version}", "setting": options.setting}, measure


serve(open_peer)
