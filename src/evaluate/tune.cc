#include "evaluate/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <new>
#include <system_error>

#include "base/check.h"
#include "base/clock.h"
#include "base/huge_memory.h"
#include "evaluate/speed.h"
#include "kernels/native.h"

namespace knapsack {
namespace {

// A matrix as of a model of one or two thousand million weights.
constexpr std::int64_t rows = 1536;
constexpr std::int64_t cols = 1536;
constexpr std::int64_t many_tokens = 128;
constexpr int least_rounds = 6;

// Products with made-up weights of one kind. What the numbers are does not matter to how fast they are multiplied; only
// that no factor is a number of those that some processors are slow with.
class Product {
 public:
  Product(Isa isa, const PackedKind& kind, bool one, std::int64_t bytes, ThreadPool& pool)
      : table_(packed_table(isa)), pool_(pool), tokens_(one ? 1 : many_tokens) {
    PackedMatrix w{.kind = kind, .rows = rows, .cols = cols, .data = nullptr};
    const std::int64_t count = one ? std::max<std::int64_t>(1, bytes / w.bytes()) : 1;
    const std::int64_t all = count * w.bytes();
    const std::shared_ptr<std::byte[]> memory = huge_memory(static_cast<std::size_t>(all));
    constexpr std::int64_t piece = 1 << 20;
    constexpr auto filling = std::byte{0x2c};  // as f16: 0.065
    pool.parallel_for(all, piece, [&](std::int64_t begin, std::int64_t end, int) {
      std::fill(memory.get() + begin, memory.get() + end, filling);
    });
    for (std::int64_t i = 0; i < count; ++i) {
      w.data = {memory, memory.get() + i * w.bytes()};
      matrices_.push_back(w);
    }
    const auto blocks = static_cast<std::size_t>(tokens_ * cols / packed_block);
    const auto groups = blocks * static_cast<std::size_t>(kind.groups);
    q_.assign(static_cast<std::size_t>(tokens_ * cols), std::int8_t{3});
    d_.assign(blocks, 0.01F);
    side_.assign(groups, 0.01F);
    base_.assign(groups, 1);
    y_.assign(static_cast<std::size_t>(tokens_ * rows), 0.0F);
  }

  // The time for all matrices, in milliseconds.
  double run(const PackedChoice& choice) {
    const Stopwatch clock;
    for (PackedMatrix& w : matrices_) {
      w.choice = choice;
      const PackedJob job{.w = &w,
                          .x = {.q = q_.data(), .d = d_.data(), .side = side_.data(), .base = base_.data()},
                          .y = y_.data(),
                          .y_stride = rows,
                          .tokens = tokens_};
      packed_matmul(table_, {&job, 1}, pool_);
    }
    return clock.ms();
  }

 private:
  const PackedTable& table_;
  ThreadPool& pool_;
  std::int64_t tokens_;
  std::vector<PackedMatrix> matrices_;
  std::vector<std::int8_t> q_;
  std::vector<float> d_, side_, y_;
  std::vector<std::int32_t> base_;
};

// How far from the median all but a quarter of the rounds lie; all of them where there are few.
double spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double middle = median(values);
  const std::size_t outside = values.size() / 8;
  return std::max(middle - values[outside], values[values.size() - 1 - outside] - middle);
}

bool makes_a_difference(const PackedTable& table, Choice choice, int threads) {
  switch (choice) {
    case Choice::ahead:
      return table.fetches;
    case Choice::vectors:
      return table.two_vectors;
    case Choice::tiles:
      return table.tiles;
    default:  // pieces
      return threads > 1;
  }
}

struct Task {
  ChoiceInfo info;
  PackedKind kind;
  std::string codes;
};

// How pieces are handed out is the same for all codes; the rest is chosen for each.
std::vector<Task> tasks(const PackedTable& table, int threads) {
  std::vector<Task> all;
  for (const ChoiceInfo& info : all_choices()) {
    const bool pieces = info.choice == Choice::pieces_one || info.choice == Choice::pieces_many;
    if (!makes_a_difference(table, info.choice, threads)) continue;
    std::vector<std::string> seen;
    for (const FormatInfo& f : all_formats()) {
      const auto kind = packed_kind(f.dtype);
      if (!kind) continue;
      std::string codes = pieces ? "*" : codes_name(*kind);
      if (std::find(seen.begin(), seen.end(), codes) != seen.end()) continue;
      seen.push_back(codes);
      all.push_back({.info = info, .kind = *kind, .codes = std::move(codes)});
    }
  }
  return all;
}

Tuned measure(const Task& task, const TuneOptions& options, ThreadPool& pool, const std::stop_token& stop) {
  const PackedChoice built_in = Choices::built_in().packed(options.isa, task.kind);
  const auto field = task.info.value;
  Tuned tuned{.codes = task.codes, .choice = task.info.choice, .before = built_in.*field};
  // What is built in runs a second time as if it were another: what that differs by is noise.
  std::vector<PackedChoice> choices{built_in, built_in};
  for (const std::int64_t value : task.info.candidates) {
    if (value == tuned.before) continue;
    choices.push_back(built_in);
    choices.back().*field = value;
  }
  Product product(options.isa, task.kind, task.info.tokens == "one", options.bytes, pool);
  std::vector<double> ms(choices.size());
  std::vector<std::vector<double>> ratios(choices.size());
  const Stopwatch clock;
  for (std::size_t round = 0; round < least_rounds || clock.ms() < options.seconds * 1000; ++round) {
    if (stop.stop_requested()) return tuned;  // which nobody looks at
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const std::size_t turn = (i + round) % choices.size();
      ms[turn] = product.run(choices[turn]);
    }
    if (round == 0) continue;  // caches and clocks settle
    for (std::size_t i = 1; i < choices.size(); ++i) ratios[i].push_back(ms[0] / ms[i]);
  }
  tuned.noise = std::fabs(median(ratios[1]) - 1) + spread_of(ratios[1]);
  for (std::size_t i = 2; i < choices.size(); ++i)
    tuned.tried.push_back({.value = choices[i].*field, .ratio = median(ratios[i]), .spread = spread_of(ratios[i])});
  tuned.chosen = best_value(tuned);
  return tuned;
}

}  // namespace

std::int64_t best_value(const Tuned& tuned) {
  constexpr double worth_it = 0.01;
  const auto best = std::max_element(tuned.tried.begin(), tuned.tried.end(),
                                     [](const Tried& a, const Tried& b) { return a.ratio < b.ratio; });
  if (best == tuned.tried.end()) return tuned.before;
  const bool faster = best->ratio - 1 > std::max({best->spread, tuned.noise, worth_it});
  return faster ? best->value : tuned.before;
}

Result<std::vector<Tuned>> tune(const TuneOptions& options, const std::stop_token& stop) {
  std::unique_ptr<ThreadPool> pool;
  try {
    pool = std::make_unique<ThreadPool>(options.threads);
  } catch (const std::system_error& error) {
    return out_of_resource("cannot start {} threads: {}; ask for fewer (--threads)", options.threads, error.what());
  }
  const std::vector<Task> all = tasks(packed_table(options.isa), options.threads);
  std::vector<Tuned> tuned;
  for (const Task& task : all) {
    if (options.progress) options.progress(static_cast<double>(tuned.size()) / static_cast<double>(all.size()));
    try {
      tuned.push_back(measure(task, options, *pool, stop));
    } catch (const std::bad_alloc&) {
      return out_of_resource("{} MiB of made-up weights are not to be had; a smaller --time takes fewer of them",
                             ((options.bytes - 1) >> 20) + 1);
    }
    if (stop.stop_requested()) return Error{Code::interrupted, "stopped while measuring"};
  }
  return tuned;
}

std::string choices_text(Isa isa, const std::vector<Tuned>& tuned, std::span<const ChoiceLine> others) {
  std::string text =
      "# How kernels go about it on this machine, as `knapsack tune` measured it.\n"
      "# ISA  codes  tokens  choice  value; `*`: any; a later line wins.\n";
  const auto measured = [&](const ChoiceLine& line) {
    return line.isa && *line.isa == isa && std::any_of(tuned.begin(), tuned.end(), [&](const Tuned& entry) {
             return entry.choice == line.choice &&
                    (line.codes == "*" || line.codes == entry.codes || entry.codes == "*");
           });
  };
  std::vector<ChoiceLine> kept;
  std::copy_if(others.begin(), others.end(), std::back_inserter(kept),
               [&](const auto& line) { return !measured(line); });
  for (const ChoiceLine& line : kept) text += line.text() + "\n";
  for (const Tuned& entry : tuned) {
    // What is built in need not be said, unless a line above says otherwise.
    const bool said = std::any_of(kept.begin(), kept.end(), [&](const ChoiceLine& line) {
      return line.choice == entry.choice && (!line.isa || *line.isa == isa);
    });
    if (entry.chosen == entry.before && !said) continue;
    const ChoiceLine line{.isa = isa, .codes = entry.codes, .choice = entry.choice, .value = entry.chosen};
    text += line.text();
    for (const Tried& tried : entry.tried)
      if (tried.value == entry.chosen) text += fmt::format("  # {:.3f} times as fast as {}", tried.ratio, entry.before);
    text += "\n";
  }
  return text;
}

}  // namespace knapsack
