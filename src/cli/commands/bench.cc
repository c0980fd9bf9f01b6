#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/peak_memory.h"
#include "cli/build_info.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/isa.h"
#include "cli/model.h"
#include "device/peaks.h"
#include "evaluate/speed.h"
#include "kernels/choices.h"
#include "report/progress.h"
#include "report/table.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

// What a kernel is held against: memory, products, or the cache that activations lie in.
struct Limit {
  const char* name = "";  // empty: nothing that was measured
  double share = 0;       // of that peak
};

double cache_peak(const Peaks& peaks, int threads) {
  for (const CachePeak& peak : peaks.caches)
    if (peak.cache.level == 2) return peak.gb_per_s * threads;
  return 0;
}

Limit limit_of(const KernelTime& kernel, int threads, const Peaks& peaks) {
  constexpr double giga = 1e9;
  const auto share = [&](double amount, double peak) { return peak > 0 ? amount / giga / peak : 0; };
  const Limit cache{"cache", share(kernel.bytes, cache_peak(peaks, threads))};
  if (!kernel.weights) return cache.share > 0 ? cache : Limit{};
  const double integers = kernel.bits > 0 ? peaks.int8(threads, kernel.bits) : 0;
  const Limit memory{"memory", share(kernel.bytes, peaks.read(threads))};
  const Limit products{integers > 0 ? "int8" : "fp32",
                       share(kernel.products, integers > 0 ? integers : peaks.fp32(threads))};
  return products.share > memory.share ? products : memory;
}

// Of the time that a pass takes, how much it would take at least, each kernel at its peak.
double share_of_limit(const Speed& speed, const Peaks& peaks) {
  double share = 0;
  for (const KernelTime& kernel : speed.kernels)
    if (kernel.weights) share += kernel.share * limit_of(kernel, speed.threads, peaks).share;
  return share;
}

const char* kind_of(const Speed& speed) { return speed.prefill ? "prefill" : "decode"; }

class BenchCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "prefill: -p tokens are read, decode: -n tokens are written, each after -d tokens that the KV cache holds "
        "already. A LIST is numbers separated by commas: each makes a case of its own. Every case is measured once in "
        "each of -r rounds. One more pass of each case is timed kernel by kernel and "
        "set beside what this machine can do at most (`knapsack devices measure`), which is measured before and "
        "after.\n"
        "The token ids mean nothing; the likeliest next token is chosen in each step, as when text is written. A model "
        "that fits in the processor's caches is read faster than memory, and so passes its peak.\n"
        "\"of the limit\": how near the products come, each weighed by its time, to the peak that would stop them "
        "first: "
        "reading memory, or multiplying (int8 or fp32). Peaks are those of the fastest instructions, whatever --isa "
        "says.");
    model_argument(arguments, model_);
    arguments.integers("-p,--prompt", options_.prompts, 0, most_tokens, "tokens read; 0: no prefill");
    arguments.integers("-n,--gen", options_.gens, 0, most_tokens, "tokens written; 0: no decode");
    arguments.integers("-d,--depth", options_.depths, 0, most_tokens, "tokens held before");
    arguments.integers("-t,--threads", threads_, 1, most_threads,
                       "numbers of threads (default: the cores this process may use)");
    arguments.integer("-r,--repeats", options_.repeats, 1, 1000, "rounds");
    arguments.integer("-b,--batch", options_.batch, 1, 128, "sequences decoded together; tokens/s is of all of them");
    kv_flag(arguments, kv_);
    isa_flag(arguments, isa_);
    exact_flag(arguments, options_.exact);
    arguments.number("--peak-seconds", peak_seconds_, 0.001, 60, "how long to measure each peak of the machine");
    arguments.example("knapsack bench model.gguf", "512 tokens read, 128 written, five times");
    arguments.example("knapsack bench model.gguf -p 128,512 -n 0", "prefill only, of two lengths");
    arguments.example("knapsack bench model.gguf -d 0,2048 -t 1,2", "at two depths, on one thread and on two");
    arguments.example("knapsack bench model.gguf -p 0 -b 8 --json", "eight sequences decoded together, for a script");
  }

  Result<int> run(Context& context) override {
    if (!options_.reads() && !options_.writes())
      return usage_error("-p 0 and -n 0 leave nothing to measure; give one of them a number");
    options_.kv = kv_dtype(kv_);
    TRY(const Isa isa, chosen_isa(isa_));
    options_.isa = isa;
    TRY(const Choices choices, Choices::in_use());
    choices_ = choices.file();
    if (threads_.empty()) threads_.push_back(available_cores());
    options_.threads.assign(threads_.begin(), threads_.end());
    OpenOptions open{.ctx = options_.ctx()};
    open.max_selected = options_.batch;
    TRY(const auto bundle, open_model(context, model_, open));
    if (bundle->trained_ctx > 0 && options_.ctx() > bundle->trained_ctx)
      warn(
          "{}: depth and tokens make {}, more than the {} it was trained for; the speed is right, its text would be "
          "worse",
          bundle->name, options_.ctx(), bundle->trained_ctx);

    TRY_VOID(speed_cache(*bundle, options_));  // before the peaks, which take seconds

    const Host host = read_host();
    Interruptible interruptible;
    Progress progress("measuring", "permille", context.quiet);
    const auto part = [&](double from, double to) {
      return [&progress, from, to](double done) {
        progress.update(static_cast<std::uint64_t>((from + (to - from) * done) * 1000), 1000);
      };
    };
    constexpr double before = 0.05;  // of the bar
    constexpr double after = 0.95;
    MeasureOptions measure{.threads = options_.threads, .ms = peak_seconds_ * 1000, .progress = part(0, before)};
    measure.stop = interruptible.token();
    TRY(Peaks peaks, measure_peaks(host, measure));
    options_.progress = part(before, after);
    forget_peak_memory();  // what measuring the machine took is not the model's
    TRY(const auto speeds, measure_speed(*bundle, options_, interruptible.token()));
    peak_mib_ = peak_memory_mib();
    measure.progress = part(after, 1);
    TRY(const Peaks again, measure_peaks(host, measure));
    peaks.merge(again);
    progress.finish();
    warn_if_busy(speeds);
    if (!context.json) return print_result(context, text_of(*bundle, isa, host, peaks, speeds), {});
    return print_result(context, "", json_of(*bundle, isa, host, peaks, speeds));
  }

 private:
  // Other work on the machine shows in rounds that differ.
  static void warn_if_busy(const std::vector<Speed>& speeds) {
    constexpr double much = 1.3;
    double most = 1;
    for (const Speed& speed : speeds) {
      const auto [least, best] = std::minmax_element(speed.tokens_per_s.begin(), speed.tokens_per_s.end());
      if (*least > 0) most = std::max(most, *best / *least);
    }
    if (most > much)
      warn(
          "one round was {:.1f} times as fast as another of the same case: other work ran on this machine, and the "
          "figures are lower than it can do",
          most);
  }

  static constexpr std::int64_t most_tokens = 1 << 24;
  static constexpr std::int64_t most_threads = 1024;

  [[nodiscard]] std::string text_of(const Bundle& bundle, Isa isa, const Host& host, const Peaks& peaks,
                                    const std::vector<Speed>& speeds) const {
    using Align = Table::Align;
    std::string text = fmt::format("{} on {}, {}{}, KV {}{}{}\n\n", one_line(bundle.name), one_line(host.cpu),
                                   isa_name(isa), choices_.empty() ? "" : ", choices of " + one_line(choices_), kv_,
                                   options_.exact ? ", products of floats" : "",
                                   options_.batch > 1 ? fmt::format(", {} sequences together", options_.batch) : "");
    Table results({{"case"},
                   {"depth", Align::right},
                   {"threads", Align::right},
                   {"tokens/s", Align::right},
                   {"least", Align::right},
                   {"most", Align::right},
                   {"of the limit", Align::right}});
    for (const Speed& speed : speeds) {
      const auto [least, most] = std::minmax_element(speed.tokens_per_s.begin(), speed.tokens_per_s.end());
      results.row({fmt::format("{} {}", kind_of(speed), speed.prefill ? speed.prompt : speed.gen),
                   std::to_string(speed.depth), std::to_string(speed.threads),
                   fmt::format("{:.1f}", median(speed.tokens_per_s)), fmt::format("{:.1f}", *least),
                   fmt::format("{:.1f}", *most), fmt::format("{:.0f} %", 100 * share_of_limit(speed, peaks))});
    }
    text += results.text();
    for (const Speed& speed : speeds) {
      text += fmt::format("\n{} {}, depth {}, {} thread{}\n", kind_of(speed), speed.prefill ? speed.prompt : speed.gen,
                          speed.depth, speed.threads, speed.threads == 1 ? "" : "s");
      Table kernels({{"kernel"},
                     {"time", Align::right},
                     {"GB/s", Align::right},
                     {"GOP/s", Align::right},
                     {"of the peak", Align::right},
                     {"of"}});
      for (const KernelTime& kernel : speed.kernels) {
        constexpr double worth_a_line = 0.001;
        if (kernel.share < worth_a_line) continue;
        const Limit limit = limit_of(kernel, speed.threads, peaks);
        const auto number = [](double value) { return value > 0 ? fmt::format("{:.1f}", value / 1e9) : ""; };
        kernels.row({kernel.name, fmt::format("{:.1f} %", 100 * kernel.share), number(kernel.bytes),
                     number(kernel.products), limit.share > 0 ? fmt::format("{:.0f} %", 100 * limit.share) : "",
                     limit.name});
      }
      text += kernels.text("  ");
    }
    text += fmt::format("\nmemory at most: {:.0f} MiB, with a KV cache of {} tokens\n", peak_mib_, options_.ctx());
    text += "peaks measured in this run:";
    for (const int threads : options_.threads)
      text += fmt::format("  {} thread{}: read {:.1f} GB/s, fp32 {:.0f}, int8 {:.0f} to {:.0f} GOP/s", threads,
                          threads == 1 ? "" : "s", peaks.read(threads), peaks.fp32(threads), peaks.int8(threads, 8),
                          peaks.int8(threads, 1));
    return text + "\n";
  }

  [[nodiscard]] json::object json_of(const Bundle& bundle, Isa isa, const Host& host, const Peaks& peaks,
                                     const std::vector<Speed>& speeds) const {
    json::array results;
    json::array kernels;
    for (const Speed& speed : speeds) {
      const auto [least, most] = std::minmax_element(speed.tokens_per_s.begin(), speed.tokens_per_s.end());
      json::object entry = case_json(speed);
      entry["tokens_per_s"] = json::object{{"median", median(speed.tokens_per_s)},
                                           {"min", *least},
                                           {"max", *most},
                                           {"samples", json::value_from(speed.tokens_per_s)}};
      results.push_back(std::move(entry));
      for (const KernelTime& kernel : speed.kernels) kernels.push_back(json_of(speed, kernel, peaks));
    }
    json::object object{{"results", std::move(results)}, {"machine", machine_json(host, peaks)}};
    object["kernels"] = std::move(kernels);
    json::array limits;
    for (const Speed& speed : speeds) {
      json::object entry = case_json(speed);
      entry["share_of_limit"] = share_of_limit(speed, peaks);
      limits.push_back(std::move(entry));
    }
    object["limits"] = std::move(limits);
    object["model"] = bundle.name;
    object["model_hash"] = bundle.model_hash;
    object["batch"] = options_.batch;
    object["kv"] = kv_;
    object["isa"] = isa_name(isa);
    object["choices"] = choices_.empty() ? json::value(nullptr) : json::value(choices_);
    object["exact"] = options_.exact;
    object["version"] = KNAPSACK_VERSION;
    object["ctx"] = options_.ctx();
    object["peak_rss_mib"] = peak_mib_;
    return object;
  }

  static json::object case_json(const Speed& speed) {
    return {{"kind", kind_of(speed)},
            {"prompt", speed.prompt},
            {"gen", speed.gen},
            {"depth", speed.depth},
            {"threads", speed.threads}};
  }

  static json::object json_of(const Speed& speed, const KernelTime& kernel, const Peaks& peaks) {
    const Limit limit = limit_of(kernel, speed.threads, peaks);
    json::object object = case_json(speed);
    object["kernel"] = kernel.name;
    object["ms"] = kernel.ms;
    object["share"] = kernel.share;
    object["gb_per_s"] = kernel.bytes / 1e9;
    object["gop_per_s"] = kernel.products / 1e9;
    const bool limited = limit.share > 0;
    object["peak"] = limited ? json::value(limit.name) : json::value(nullptr);
    object["share_of_peak"] = limited ? json::value(limit.share) : json::value(nullptr);
    return object;
  }

  std::string model_, kv_ = "f16";
  std::string choices_;  // the user's file of them, if any
  std::optional<std::string> isa_;
  std::vector<std::int64_t> threads_;
  SpeedOptions options_;
  double peak_seconds_ = 0.1;
  double peak_mib_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace knapsack
