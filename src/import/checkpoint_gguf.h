// GGUF as a Checkpoint: llama.cpp's tensor names under Hugging Face's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "files/gguf.h"
#include "import/checkpoint.h"

namespace knapsack {

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; gemma: its four norms have names of their own.
// Null where GGUF has no name for it.
std::string gguf_tensor_name(std::string_view hf_name, std::string_view architecture);

std::unique_ptr<Checkpoint> gguf_checkpoint(std::shared_ptr<const GgufFile> file, std::string path,
                                            std::string_view architecture);

}  // namespace knapsack
