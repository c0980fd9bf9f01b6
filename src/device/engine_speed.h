// How fast this program's own engine runs decoders on a machine, measured on two shapes with made-up weights in several
// storage formats. A plan for that machine is put together from it. Not for measuring: pipeline/measure_engine.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace knapsack {

// Products with the matrices of one shape in one format, all threads together.
struct MatrixSpeed {
  std::string format{};        // "Q4_0"
  std::int64_t hidden = 0;     // of the shape
  double decode_gb_per_s = 0;  // of weights as they are stored, a token at a time
  double prefill_gop_per_s = 0;
};
// What else a layer of one shape costs: norms, RoPE, activations, residuals, handing out work.
struct LayerSpeed {
  std::int64_t hidden = 0;
  double decode_us = 0;   // a token
  double prefill_ns = 0;  // a token and column of `hidden`
};

struct EngineSpeed {
  int threads = 1;
  std::vector<MatrixSpeed> matrices{};  // at least one
  std::vector<LayerSpeed> layers{};     // at least one
  double load_gb_per_s = 0;             // of weights as they are stored, from the page cache, packed for products
  double attention_gb_per_s = 0;        // of the KV cache in F16, a token at a time
  double attention_gop_per_s = 0;       // of a prompt

  // Of weights in `format`, at a width between or beyond those measured; a format that was not measured is taken for
  // the measured one with the nearest number of bits.
  [[nodiscard]] MatrixSpeed matrix(const std::string& format, std::int64_t hidden) const;
  [[nodiscard]] LayerSpeed layer(std::int64_t hidden) const;
};

}  // namespace knapsack
