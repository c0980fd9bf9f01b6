// What this machine can do at most, measured: bytes read a second by threads and by cache, operations a second by mix
// of instructions. On a shared machine these move within minutes: measure them in the same run as what is compared.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/threads.h"
#include "device/host.h"
#include "device/mixes.h"

namespace knapsack {

struct ReadPeak {
  int threads = 1;
  double gb_per_s = 0;
};
struct CachePeak {
  Cache cache;
  double gb_per_s = 0;  // one thread reading half of it
};
struct ComputePeak {
  std::string mix;
  Products products = Products::fp32;
  int weight_bits = 0;
  int threads = 1;
  double gop_per_s = 0;  // a product and its addition are two
};

struct Peaks {
  std::vector<ReadPeak> memory{};
  std::vector<CachePeak> caches{};
  std::vector<ComputePeak> compute{};

  // 0 where it was not measured. bits: of the weights, the best mix that cannot overflow with them.
  [[nodiscard]] double read(int threads) const;
  [[nodiscard]] double fp32(int threads) const;
  [[nodiscard]] double int8(int threads, int bits) const;
  // Of each figure the better one: both are what the machine could do.
  void merge(const Peaks& other);
};

struct MeasureOptions {
  std::vector<int> threads{1};  // what is measured with each of these
  double ms = 300;              // for each figure, at least; the best of its rounds counts
  bool caches = true;
  std::function<void(double done)> progress{};  // 0 to 1
  std::stop_token stop{};
};

// Stopped: an error of Code::interrupted.
Result<Peaks> measure_peaks(const Host& host, const MeasureOptions& options);

// 1, 2, 4, ... and `most`.
std::vector<int> thread_counts(int most);

// The machine as `knapsack devices measure --json` and `knapsack bench --json` print it.
json::object machine_json(const Host& host, const Peaks& peaks);

}  // namespace knapsack
