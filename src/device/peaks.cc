#include "device/peaks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <system_error>

#include "base/clock.h"

namespace knapsack {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int64_t line = 64;

struct Unmap {
  std::size_t bytes;
  void operator()(std::byte* p) const { munmap(p, bytes); }
};
using Buffer = std::unique_ptr<std::byte, Unmap>;

// Four times what the caches hold, so that memory is read and not they; no more than a quarter of what there is.
std::int64_t buffer_bytes(const Host& host) {
  std::int64_t largest = 64 * mib;
  for (const Cache& cache : host.caches) largest = std::max(largest, cache.bytes);
  const std::int64_t most = std::max<std::int64_t>(64 * mib, host.memory_limit_bytes / 4);
  return std::min(4 * largest, most) / mib * mib;
}

Result<Buffer> make_buffer(std::int64_t bytes, ThreadPool& pool) {
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return out_of_resource("{} MiB to measure the memory with are not to be had", bytes / mib);
  madvise(memory, size, MADV_HUGEPAGE);
  auto* begin = static_cast<std::byte*>(memory);
  // Written, or every page would be the same page of zeros.
  pool.parallel_for(
      bytes, mib, [&](std::int64_t from, std::int64_t to, int) { std::fill(begin + from, begin + to, std::byte{1}); });
  return Buffer(begin, Unmap{size});
}

// The most of `amount` a second that f() reaches in rounds of `ms` altogether, in thousands of millions.
double best_rate(double amount, double ms, const std::function<void()>& f) {
  constexpr int least_rounds = 3;
  double best = 1e30;
  const Stopwatch all;
  for (int round = 0; round < least_rounds || all.ms() < ms; ++round) {
    const Stopwatch one;
    f();
    best = std::min(best, one.ms());
  }
  return amount / best / 1e6;
}

double read_rate(ThreadPool& pool, ReadFn read, const std::byte* begin, std::int64_t bytes, double ms) {
  return best_rate(static_cast<double>(bytes), ms, [&] {
    pool.parallel_for(bytes, mib, [&](std::int64_t from, std::int64_t to, int) { read(begin + from, to - from); });
  });
}

double compute_rate(ThreadPool& pool, const Mix& mix, double ms) {
  // A round of about 8 ms, however fast the machine: long beside a hand-over, short beside a time slice.
  std::int64_t steps = 1024;
  constexpr double round_ms = 8;
  while (true) {
    const Stopwatch clock;
    mix.run(steps);
    if (clock.ms() > round_ms / 2) break;
    steps *= 2;
  }
  return best_rate(mix.operations_a_step * static_cast<double>(steps * pool.size()), ms, [&] {
    pool.parallel_for(pool.size(), 1, [&](std::int64_t, std::int64_t, int) { mix.run(steps); });
  });
}

double cache_rate(ReadFn read, const std::byte* begin, const Cache& cache, double ms) {
  const std::int64_t bytes = std::max(line, cache.bytes / 2 / line * line);
  const std::int64_t passes = std::max<std::int64_t>(1, 4 * mib / bytes);
  return best_rate(static_cast<double>(bytes * passes), ms, [&] {
    for (std::int64_t pass = 0; pass < passes; ++pass) read(begin, bytes);
  });
}

json::object cache_json(const Cache& cache) {
  return {{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}, {"shared_by", cache.shared_by}};
}

double rounded(double value) { return std::round(value * 100) / 100; }

}  // namespace

double Peaks::read(int threads) const {
  for (const ReadPeak& peak : memory)
    if (peak.threads == threads) return peak.gb_per_s;
  return 0;
}

double Peaks::fp32(int threads) const {
  double best = 0;
  for (const ComputePeak& peak : compute)
    if (peak.threads == threads && peak.products == Products::fp32) best = std::max(best, peak.gop_per_s);
  return best;
}

double Peaks::int8(int threads, int bits) const {
  double best = 0;
  for (const ComputePeak& peak : compute)
    if (peak.threads == threads && peak.products == Products::int8 && peak.weight_bits >= bits)
      best = std::max(best, peak.gop_per_s);
  return best;
}

void Peaks::merge(const Peaks& other) {
  for (ReadPeak& mine : memory) mine.gb_per_s = std::max(mine.gb_per_s, other.read(mine.threads));
  for (ComputePeak& mine : compute)
    for (const ComputePeak& theirs : other.compute)
      if (theirs.mix == mine.mix && theirs.threads == mine.threads)
        mine.gop_per_s = std::max(mine.gop_per_s, theirs.gop_per_s);
}

Result<Peaks> measure_peaks(const Host& host, const MeasureOptions& options) {
  const std::vector<Mix> all = mixes(host);
  const ReadFn read = reader(host);
  std::vector<Cache> caches;
  for (const Cache& cache : host.caches)
    if (options.caches && cache.type != "instruction") caches.push_back(cache);
  const double steps = static_cast<double>(options.threads.size() * (all.size() + 1) + caches.size());
  double done = 0;
  const auto go_on = [&] {
    if (options.progress) options.progress(done++ / steps);
    return !options.stop.stop_requested();
  };
  const Error stopped{Code::interrupted, "stopped while measuring the machine"};

  Peaks peaks;
  Buffer buffer;
  const std::int64_t bytes = buffer_bytes(host);
  for (const int threads : options.threads) {
    std::unique_ptr<ThreadPool> pool;
    try {
      pool = std::make_unique<ThreadPool>(threads);
    } catch (const std::system_error& error) {
      return out_of_resource("cannot start {} threads: {}; ask for fewer (--threads)", threads, error.what());
    }
    if (buffer == nullptr) {
      TRY(buffer, make_buffer(bytes, *pool));
      for (const Cache& cache : caches) {
        if (!go_on()) return stopped;
        if (cache.bytes / 2 <= bytes)
          peaks.caches.push_back({cache, cache_rate(read, buffer.get(), cache, options.ms)});
      }
    }
    if (!go_on()) return stopped;
    peaks.memory.push_back({threads, read_rate(*pool, read, buffer.get(), bytes, options.ms)});
    for (const Mix& mix : all) {
      if (!go_on()) return stopped;
      peaks.compute.push_back({.mix = std::string(mix.name),
                               .products = mix.products,
                               .weight_bits = mix.weight_bits,
                               .threads = threads,
                               .gop_per_s = compute_rate(*pool, mix, options.ms)});
    }
  }
  return peaks;
}

std::vector<int> thread_counts(int most) {
  std::vector<int> counts;
  for (int threads = 1; threads < most; threads *= 2) counts.push_back(threads);
  counts.push_back(most);
  return counts;
}

json::object machine_json(const Host& host, const Peaks& peaks) {
  json::object object{{"cpu", host.cpu}, {"architecture", host.architecture}};
  object["features"] = json::value_from(host.features);
  object["cores"] = host.cores;
  object["usable_cores"] = host.usable_cores;
  object["cpu_quota"] = host.cpu_quota ? json::value(*host.cpu_quota) : json::value(nullptr);
  object["memory_bytes"] = host.memory_bytes;
  object["memory_limit_bytes"] = host.memory_limit_bytes;
  json::array caches;
  for (const Cache& cache : host.caches) {
    json::object entry = cache_json(cache);
    for (const CachePeak& peak : peaks.caches)
      if (peak.cache.level == cache.level && peak.cache.type == cache.type) entry["gb_per_s"] = rounded(peak.gb_per_s);
    caches.push_back(std::move(entry));
  }
  object["caches"] = std::move(caches);
  json::array memory;
  for (const ReadPeak& peak : peaks.memory)
    memory.push_back(json::object{{"threads", peak.threads}, {"gb_per_s", rounded(peak.gb_per_s)}});
  object["read_bandwidth"] = std::move(memory);
  json::array compute;
  for (const ComputePeak& peak : peaks.compute) {
    json::object entry{{"type", peak.products == Products::fp32 ? "fp32" : "int8"}, {"mix", peak.mix}};
    if (peak.products == Products::int8) entry["weight_bits"] = peak.weight_bits;
    entry["threads"] = peak.threads;
    entry["gop_per_s"] = rounded(peak.gop_per_s);
    compute.push_back(std::move(entry));
  }
  object["peaks"] = std::move(compute);
  return object;
}

}  // namespace knapsack
