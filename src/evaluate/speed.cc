#include "evaluate/speed.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <system_error>

#include "base/check.h"
#include "base/clock.h"
#include "program/executor.h"
#include "program/pack.h"
#include "runtime/sampler.h"

namespace knapsack {
namespace {

using Ids = std::span<const std::int32_t>;

std::int64_t largest(const std::vector<std::int64_t>& numbers) {
  return *std::max_element(numbers.begin(), numbers.end());
}

Error stopped() { return {Code::interrupted, "stopped while measuring"}; }

// What the cases share: weights and KV cache.
struct Model {
  const Bundle& bundle;
  KvCache kv;
  std::unique_ptr<PackedWeights> packed{};
};

// The programs, run by one number of threads.
class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(Model& model, const SpeedOptions& options, int threads) {
    std::unique_ptr<Runner> runner(new Runner(model, options));
    try {
      runner->pool_ = std::make_unique<ThreadPool>(threads);
    } catch (const std::system_error& error) {
      return out_of_resource("cannot start {} threads: {}; ask for fewer (--threads)", threads, error.what());
    }
    return runner;
  }
  Result<void> bind(Isa isa) {
    const PackedWeights* packed = model_.packed.get();
    TRY(prefill_, Executor::create(model_.bundle.prefill, model_.kv, *pool_, isa, packed));
    TRY(decode_, Executor::create(model_.bundle.decode, model_.kv, *pool_, isa, packed));
    return {};
  }
  [[nodiscard]] ThreadPool& pool() { return *pool_; }

  // Tokens [from, from + count) of a sequence; logits of the last one if wanted.
  Result<void> read(std::int64_t slot, std::int64_t from, std::int64_t count, bool wanted,
                    const std::stop_token& stop) {
    const std::int64_t chunk = model_.bundle.prefill->max_tokens;
    for (std::int64_t done = 0; done < count; done += chunk) {
      if (stop.stop_requested()) return stopped();
      const auto rows = static_cast<std::size_t>(std::min(chunk, count - done));
      for (std::size_t i = 0; i < rows; ++i) {
        positions_[i] = static_cast<std::int32_t>(from + done) + static_cast<std::int32_t>(i);
        ids_[i] = static_cast<std::int32_t>((positions_[i] * std::int64_t{7919} + 13) % model_.bundle.vocab);
        slots_[i] = static_cast<std::int32_t>(slot);
      }
      selected_[0] = static_cast<std::int32_t>(rows) - 1;
      const bool last = wanted && done + chunk >= count;
      prefill_->run({.ids = Ids(ids_).first(rows),
                     .positions = Ids(positions_).first(rows),
                     .slots = Ids(slots_).first(rows),
                     .selected = Ids(selected_).first(last ? 1 : 0)});
    }
    return {};
  }

  // `steps` tokens more for each of the sequences, which hold `from`. The time that choosing takes goes to sampling_ms.
  Result<void> write(std::int64_t from, std::int64_t steps, const std::stop_token& stop, double& sampling_ms) {
    const auto rows = static_cast<std::size_t>(batch_);
    for (std::size_t i = 0; i < rows; ++i) {
      slots_[i] = static_cast<std::int32_t>(i);
      ids_[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(model_.bundle.vocab));
      selected_[i] = static_cast<std::int32_t>(i);
    }
    for (std::int64_t step = 0; step < steps; ++step) {
      if (stop.stop_requested()) return stopped();
      std::fill_n(positions_.begin(), rows, static_cast<std::int32_t>(from + step));
      const auto logits = batched().run({.ids = Ids(ids_).first(rows),
                                         .positions = Ids(positions_).first(rows),
                                         .slots = Ids(slots_).first(rows),
                                         .selected = Ids(selected_).first(rows)});
      const Stopwatch clock;
      for (std::size_t i = 0; i < rows; ++i) {
        const auto vocab = static_cast<std::size_t>(model_.bundle.vocab);
        TRY(ids_[i], sampler_.sample(logits.subspan(i * vocab, vocab), {}));
      }
      sampling_ms += clock.ms();
    }
    return {};
  }

  Executor& prefill() { return *prefill_; }
  // The program that decodes all sequences in one step: the one for few rows where they fit.
  Executor& batched() { return batch_ <= model_.bundle.decode->max_selected ? *decode_ : *prefill_; }

 private:
  Runner(Model& model, const SpeedOptions& options)
      : model_(model), batch_(options.batch), sampler_(SamplerOptions{}, model.bundle.vocab) {
    const auto rows = static_cast<std::size_t>(std::max(model.bundle.prefill->max_tokens, batch_));
    for (auto* list : {&ids_, &positions_, &slots_, &selected_}) list->resize(rows);
  }

  Model& model_;
  std::int64_t batch_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Executor> prefill_, decode_;
  Sampler sampler_;
  std::vector<std::int32_t> ids_, positions_, slots_, selected_;
};

std::string kernel_name(const Program& program, const ProgramOp& op) {
  std::string name(op_info(op.op).text);
  std::vector<DType> seen;
  for (const int number : op.in) {
    const Slot& slot = program.slots[static_cast<std::size_t>(number)];
    if (slot.kind != SlotKind::weight) continue;
    const Weight& weight = *program.weights[static_cast<std::size_t>(slot.index)];
    if (weight.shape.size() < 2 || std::find(seen.begin(), seen.end(), weight.dtype) != seen.end()) continue;
    seen.push_back(weight.dtype);
    name += fmt::format(" {}", knapsack::name(weight.dtype));
  }
  return name;
}

// The widest of the op's packed weights: what its instruction mix must hold.
int packed_bits(const Program& program, const ProgramOp& op) {
  int bits = 0;
  for (const int number : op.in) {
    const Slot& slot = program.slots[static_cast<std::size_t>(number)];
    if (slot.kind != SlotKind::weight) continue;
    if (const auto kind = packed_kind(program.weights[static_cast<std::size_t>(slot.index)]->dtype))
      bits = std::max(bits, kind->bits);
  }
  return bits;
}

bool reads_memory(const Program& program, const ProgramOp& op) {
  if (op.op == Op::attention) return true;
  if (op_info(op.op).cls != OpClass::matrix) return false;
  return std::any_of(op.in.begin(), op.in.end(), [&](int number) {
    return program.slots[static_cast<std::size_t>(number)].kind == SlotKind::weight;
  });
}

std::vector<KernelTime> kernel_times(const Program& program, const Profile& profile, double total_ms,
                                     double sampling_ms) {
  std::vector<KernelTime> all;
  const auto of = [&](const std::string& name) -> KernelTime& {
    const auto at = std::find_if(all.begin(), all.end(), [&](const KernelTime& k) { return k.name == name; });
    if (at != all.end()) return *at;
    all.push_back({.name = name});
    return all.back();
  };
  double rest = total_ms - sampling_ms;
  for (std::size_t i = 0; i < profile.ops.size(); ++i) {
    const auto& entry = profile.ops[i];
    if (entry.calls == 0) continue;
    const ProgramOp& op = program.ops[i];
    KernelTime& kernel = of(kernel_name(program, op) + (entry.packed ? ", int8" : ""));
    kernel.ms += entry.ms;
    kernel.bytes += entry.work.bytes;
    kernel.products += entry.work.operations;
    kernel.weights = reads_memory(program, op);
    if (entry.packed) kernel.bits = std::max(kernel.bits, packed_bits(program, op));
    rest -= entry.ms;
  }
  if (sampling_ms > 0) of("sampling").ms = sampling_ms;
  of("rest").ms = std::max(0.0, rest);
  for (KernelTime& kernel : all) {
    kernel.share = total_ms > 0 ? kernel.ms / total_ms : 0;
    const double seconds = kernel.ms / 1000;
    kernel.bytes = seconds > 0 ? kernel.bytes / seconds : 0;
    kernel.products = seconds > 0 ? kernel.products / seconds : 0;
  }
  std::sort(all.begin(), all.end(), [](const KernelTime& a, const KernelTime& b) { return a.ms > b.ms; });
  return all;
}

class Measurement {
 public:
  Measurement(const SpeedOptions& options, const std::stop_token& stop) : options_(options), stop_(stop) {}

  Result<std::vector<Speed>> run(Model& model) {
    TRY(const Isa isa, choose_isa(options_.isa));
    TRY_VOID(make_runners(model, isa));
    TRY_VOID(fill(model));
    add_cases();
    // Cases, each once a repeat, once to warm up and once for its profile.
    total_ = static_cast<double>(cases_.size()) * (options_.repeats + 2);
    for (int repeat = -1; repeat < options_.repeats; ++repeat)
      for (std::size_t i = 0; i < cases_.size(); ++i) {
        TRY(const double rate, sample(cases_[i], *runner_of_[i], repeat < 0));
        if (repeat >= 0) cases_[i].tokens_per_s.push_back(rate);
      }
    for (std::size_t i = 0; i < cases_.size(); ++i) TRY_VOID(profile(cases_[i], *runner_of_[i]));
    return std::move(cases_);
  }

 private:
  Result<void> make_runners(Model& model, Isa isa) {
    for (const int threads : options_.threads) {
      TRY(auto runner, Runner::create(model, options_, threads));
      runners_.push_back(std::move(runner));
    }
    if (!options_.exact) {
      TRY(model.packed,
          pack_weights(*model.bundle.prefill, isa, runners_.back()->pool(), memory_for_weights(model.kv)));
    }
    for (const auto& runner : runners_) TRY_VOID(runner->bind(isa));
    return {};
  }

  // What the deepest case needs in the KV cache. Others write over it, which changes what the rows say but not what
  // reading them costs.
  Result<void> fill(Model& model) {
    const std::int64_t deepest = largest(options_.depths);
    const std::int64_t slots = options_.writes() ? model.kv.slots() : 1;
    for (std::int64_t slot = 0; slot < slots; ++slot) TRY_VOID(runners_.back()->read(slot, 0, deepest, false, stop_));
    return {};
  }

  void add_cases() {
    for (std::size_t t = 0; t < runners_.size(); ++t)
      for (const std::int64_t depth : options_.depths)
        for (const bool prefill : {true, false})
          for (const std::int64_t tokens : prefill ? options_.prompts : options_.gens) {
            if (tokens == 0) continue;
            cases_.push_back({.prefill = prefill,
                              .prompt = prefill ? tokens : 0,
                              .gen = prefill ? 0 : tokens,
                              .depth = depth,
                              .threads = options_.threads[t]});
            runner_of_.push_back(runners_[t].get());
          }
  }

  // Tokens a second. A short one only warms up.
  Result<double> sample(const Speed& speed, Runner& runner, bool brief) {
    if (options_.progress) options_.progress(done_++ / total_);
    constexpr std::int64_t brief_prompt = 128;
    constexpr std::int64_t brief_gen = 4;
    const Stopwatch clock;
    if (speed.prefill) {
      const std::int64_t count = brief ? std::min(brief_prompt, speed.prompt) : speed.prompt;
      TRY_VOID(runner.read(0, speed.depth, count, true, stop_));
      return static_cast<double>(count) / clock.ms() * 1000;
    }
    const std::int64_t steps = brief ? std::min(brief_gen, speed.gen) : speed.gen;
    double sampling_ms = 0;
    TRY_VOID(runner.write(speed.depth, steps, stop_, sampling_ms));
    return static_cast<double>(steps * options_.batch) / clock.ms() * 1000;
  }

  Result<void> profile(Speed& speed, Runner& runner) {
    if (options_.progress) options_.progress(done_++ / total_);
    Executor& executor = speed.prefill ? runner.prefill() : runner.batched();
    Profile taken;
    executor.set_profile(&taken);
    double sampling_ms = 0;
    const Stopwatch clock;
    const auto done = speed.prefill ? runner.read(0, speed.depth, speed.prompt, true, stop_)
                                    : runner.write(speed.depth, speed.gen, stop_, sampling_ms);
    const double total_ms = clock.ms();
    executor.set_profile(nullptr);
    if (!done) return done.error();
    speed.kernels = kernel_times(executor.program(), taken, total_ms, sampling_ms);
    return {};
  }

  const SpeedOptions& options_;
  std::stop_token stop_;
  std::vector<std::unique_ptr<Runner>> runners_;  // as options_.threads
  std::vector<Speed> cases_;
  std::vector<Runner*> runner_of_;  // by case
  double done_ = 0, total_ = 1;
};

}  // namespace

bool SpeedOptions::reads() const { return largest(prompts) > 0; }
bool SpeedOptions::writes() const { return largest(gens) > 0; }
std::int64_t SpeedOptions::ctx() const { return largest(depths) + std::max(largest(prompts), largest(gens)); }

double median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<KvCache> speed_cache(const Bundle& bundle, const SpeedOptions& options) {
  auto kv = KvCache::create(bundle.decode->states, options.batch, options.ctx(), options.kv);
  if (kv || kv.error().code != Code::resource) return kv;
  return out_of_resource(
      "{}: a KV cache of {} tokens{} is more than there is memory; ask for less depth (-d), fewer tokens read (-p) or "
      "written (-n){}",
      bundle.name, options.ctx(), options.batch > 1 ? fmt::format(" for each of {} sequences", options.batch) : "",
      options.batch > 1 ? " or fewer sequences (-b)" : "");
}

Result<std::vector<Speed>> measure_speed(const Bundle& bundle, const SpeedOptions& options,
                                         const std::stop_token& stop) {
  CHECK(options.repeats > 0 && options.batch > 0);
  CHECK(!options.prompts.empty() && !options.gens.empty() && !options.depths.empty() && !options.threads.empty());
  CHECK(options.reads() || options.writes());
  CHECK(options.batch <= std::max(bundle.decode->max_selected, bundle.prefill->max_selected));
  TRY(auto kv, speed_cache(bundle, options));
  Model model{.bundle = bundle, .kv = std::move(kv)};
  return Measurement(options, stop).run(model);
}

}  // namespace knapsack
