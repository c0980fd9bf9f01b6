#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "device/peaks.h"
#include "report/progress.h"
#include "report/table.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

std::string machine_text(const Host& host, const Peaks& peaks) {
  std::string text = fmt::format("{}, {}\n", one_line(host.cpu), host.architecture);
  text += fmt::format("cores         {}", host.cores);
  if (host.usable_cores != host.cores) text += fmt::format(", of which this process may use {}", host.usable_cores);
  if (host.cpu_quota) text += fmt::format(" (quota: {:g} of processor time)", *host.cpu_quota);
  text += fmt::format("\nmemory        {}", format_bytes(static_cast<double>(host.memory_bytes)));
  if (host.memory_limit_bytes < host.memory_bytes)
    text += fmt::format(", limited to {}", format_bytes(static_cast<double>(host.memory_limit_bytes)));
  text += fmt::format("\ninstructions  {}\n",
                      host.features.empty() ? "plain" : fmt::format("{}", fmt::join(host.features, " ")));

  using Align = Table::Align;
  if (!peaks.caches.empty()) {
    Table caches({{"cache"}, {"size", Align::right}, {"shared by", Align::right}, {"one thread reads", Align::right}});
    for (const CachePeak& peak : peaks.caches)
      caches.row({fmt::format("L{} {}", peak.cache.level, peak.cache.type),
                  format_bytes(static_cast<double>(peak.cache.bytes)), std::to_string(peak.cache.shared_by),
                  fmt::format("{:.0f} GB/s", peak.gb_per_s)});
    text += fmt::format("\n{}", caches.text());
  }
  Table table({{"at most"}, {"mix of instructions"}, {"threads", Align::right}, {"measured", Align::right}});
  for (const ReadPeak& peak : peaks.memory)
    table.row({"memory read", "", std::to_string(peak.threads), fmt::format("{:.1f} GB/s", peak.gb_per_s)});
  for (const ComputePeak& peak : peaks.compute) {
    const bool floats = peak.products == Products::fp32;
    table.row({floats ? "fp32 products" : fmt::format("int8 by {} bits", peak.weight_bits), peak.mix,
               std::to_string(peak.threads), fmt::format("{:.0f} {}", peak.gop_per_s, floats ? "GFLOP/s" : "GOP/s")});
  }
  return text + fmt::format("\n{}", table.text());
}

class DevicesCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "measure: what this machine can do at most: how fast memory and each cache are read, by how many threads, and "
        "how many products of floats and of 8-bit integers a second each mix of instructions makes. A model's speed is "
        "judged beside these figures (`knapsack bench`). It takes some seconds; on a machine that others use, too, the "
        "figures move within minutes.");
    arguments.positional("ACTION", action_, "what to do: measure").choices = {"measure"};
    arguments.number("--seconds", seconds_, 0.001, 60, "how long to measure each figure");
    arguments.example("knapsack devices measure", "this machine's bandwidth and peaks");
    arguments.example("knapsack devices measure --json > machine.json", "the same as a profile to keep");
  }

  Result<int> run(Context& context) override {
    const Host host = read_host();
    Progress progress("measuring", "permille", context.quiet);
    Interruptible interruptible;
    MeasureOptions options{.threads = thread_counts(context.threads > 0 ? context.threads : host.usable_cores),
                           .ms = seconds_ * 1000};
    options.progress = [&](double done) { progress.update(static_cast<std::uint64_t>(done * 1000), 1000); };
    options.stop = interruptible.token();
    TRY(const Peaks peaks, measure_peaks(host, options));
    progress.finish();
    return print_result(context, machine_text(host, peaks), machine_json(host, peaks));
  }

 private:
  std::string action_;
  double seconds_ = 0.3;
};

}  // namespace

std::unique_ptr<Command> make_devices_command() { return std::make_unique<DevicesCommand>(); }

}  // namespace knapsack
