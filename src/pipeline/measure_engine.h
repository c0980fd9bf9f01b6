// Measures how fast this program's own engine runs on the machine at hand: decoders of two public shapes, cut to a few
// layers, with made-up weights in the usual formats. Not for what the machine could do at most (device/peaks.h), nor
// for a real checkpoint (evaluate/speed.h, which this uses).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/engine_speed.h"
#include "tensor/dtype.h"

namespace knapsack {

struct EngineShape {
  std::string model;           // of models/
  std::int64_t layers = 1;     // of which are run: enough that weights come from memory where it is large
  std::vector<DType> formats;  // at least one; with the first of the first shape attention is measured, too
};
// Of 135 million and 1.5 thousand million parameters: some twenty seconds, and up to a GiB of memory.
std::span<const EngineShape> usual_engine_shapes();
// Two layers of the smaller one in one format: a second, for who wants an idea.
std::span<const EngineShape> brief_engine_shapes();

// progress: 0 to 1. Formats that there is no memory for are left out. Stopped: an error of Code::interrupted.
Result<EngineSpeed> measure_engine(int threads, std::span<const EngineShape> shapes,
                                   const std::function<void(double)>& progress, const std::stop_token& stop);

}  // namespace knapsack
