#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/log.h"
#include "cli/commands/command.h"
#include "cli/devices_text.h"
#include "cli/measured_host.h"
#include "device/devices.h"
#include "report/table.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

std::string engine_text(const EngineSpeed& engine) {
  using Align = Table::Align;
  Table table({{"this engine"},
               {"hidden", Align::right},
               {"decode reads", Align::right},
               {"prefill multiplies", Align::right}});
  for (const MatrixSpeed& speed : engine.matrices)
    table.row({speed.format, std::to_string(speed.hidden), fmt::format("{:.1f} GB/s", speed.decode_gb_per_s),
               fmt::format("{:.0f} GOP/s", speed.prefill_gop_per_s)});
  table.row({"attention", "", fmt::format("{:.1f} GB/s", engine.attention_gb_per_s),
             fmt::format("{:.0f} GOP/s", engine.attention_gop_per_s)});
  return fmt::format("\n{} thread{}\n{}", engine.threads, engine.threads == 1 ? "" : "s", table.text());
}

std::string machine_text(const Machine& machine) {
  const Host& host = machine.host;
  const Peaks& peaks = machine.peaks;
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
  text += fmt::format("\n{}", table.text());
  return machine.engine ? text + engine_text(*machine.engine) : text;
}

bool holds(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

bool matches(const DeviceProfile& profile, const std::string& word) {
  return holds(profile.id, word) || holds(profile.name, word) || holds(profile.vendor, word) ||
         holds(profile.family, word) ||
         std::any_of(profile.aliases.begin(), profile.aliases.end(),
                     [&](const std::string& alias) { return holds(alias, word); });
}

class DevicesCommand final : public Command {
 public:
  void describe(Arguments& arguments) override {
    arguments.about(
        "list: the devices whose profiles there are: memory, bandwidth, peak of the NPU, toolchains; NAME: only those "
        "in "
        "whose id, names, vendor or family it stands.\n"
        "show: what is known of the device NAME (an id, an alias, or FILE.json), each figure with its source. What is "
        "not "
        "listed is not known. --json prints the profile itself.\n"
        "check: whether the profile, or the toolchain's table, in the file NAME is as it should be; every fault is "
        "named "
        "with its place (exit code 3 where there is one).\n"
        "measure: what this machine can do at most: how fast memory and each cache are read, by how many threads, and "
        "how many products of floats and of 8-bit integers a second each mix of instructions makes. A model's speed is "
        "judged beside these figures (`knapsack bench`). Then this program's own engine is measured with made-up "
        "models "
        "of two public shapes: `knapsack plan --device host` is put together from that. It takes about half a minute; "
        "on a machine that others use, too, the figures move within minutes. They are kept as the profile of the "
        "device `host`.\n"
        "Profiles are built in; files in $KNAPSACK_DEVICES, else $XDG_CONFIG_HOME/knapsack/devices (~/.config without "
        "that variable) add to them and win.");
    Argument& action = arguments.positional("ACTION", action_, "what to do: list, show, check, measure");
    action.choices = {"list", "show", "check", "measure"};
    action.fallback = "list";
    arguments.positional("NAME", name_, "the device, or a file with a profile").complete = Complete::file;
    arguments.flag("--npu", npu_, "list: only devices with an NPU");
    arguments.number("--seconds", seconds_, 0.001, 60,
                     "measure: how long each peak is measured; below 0.05 the engine is looked at briefly, too");
    arguments.example("knapsack devices", "all devices");
    arguments.example("knapsack devices list snapdragon", "those of one family");
    arguments.example("knapsack devices show rk3588", "one, with the source of each figure");
    arguments.example("knapsack devices show rk3588 --json > my-board.json", "a profile to change");
    arguments.example("knapsack devices check my-board.json", "is it right?");
    arguments.example("knapsack devices measure", "this machine's bandwidth and peaks");
    arguments.example("knapsack devices measure --json > machine.json", "the same as a profile");
  }

  Result<int> run(Context& context) override {
    const std::string action = action_.value_or("list");
    if (npu_ && action != "list") return usage_error("--npu is for `knapsack devices list`");
    if (action == "measure") {
      if (name_) return usage_error("unexpected {}: this machine is what is measured", in_quotes(*name_));
      return measure(context);
    }
    if (action == "list") return list(context);
    if (!name_)
      return usage_error("{} is missing; see `knapsack devices --help`",
                         action == "show" ? "NAME" : "the file to check");
    return action == "show" ? show(context) : check(context);
  }

 private:
  Result<int> list(Context& context) const {
    TRY(const Devices all, Devices::in_use());
    std::vector<Device> devices;
    for (const std::string& id : all.ids()) {
      auto device = all.find(id);
      if (!device) {
        warn("{}", device.error().message);  // the others are there all the same
        continue;
      }
      if (name_ && !matches(device->profile, *name_)) continue;
      if (npu_ && !device->profile.npu) continue;
      devices.push_back(std::move(*device));
    }
    if (devices.empty() && name_) {
      TRY(const Device near, all.find(*name_));  // the error with the nearest names
      devices.push_back(near);
    }
    return print_result(context, devices_table(devices), devices_json(devices));
  }

  Result<int> show(Context& context) const {
    TRY(const Devices all, Devices::in_use());
    TRY(const Device device, all.find(*name_));
    std::vector<Toolchain> toolchains;
    for (const std::string& id : device.profile.toolchains) {
      auto toolchain = all.toolchain(id);
      if (toolchain) {
        toolchains.push_back(std::move(*toolchain));
      } else {
        warn("{}", toolchain.error().message);
      }
    }
    return print_result(context, device_text(device, toolchains), device.json);
  }

  Result<int> check(Context& context) const {
    TRY(const Devices all, Devices::in_use());
    TRY(const std::string text, read_text_file(*name_, most_profile_bytes));
    TRY(const json::object object, parse_json_object(text, *name_));
    std::vector<ProfileFault> faults;
    const bool is_toolchain = object.contains("ops");
    std::string id;
    if (is_toolchain) {
      Toolchain toolchain;
      TRY(faults, check_toolchain(text, *name_, toolchain));
      id = toolchain.id;
    } else {
      DeviceProfile profile;
      TRY(faults, check_profile(text, *name_, profile));
      for (ProfileFault& fault : all.unknown_toolchains(profile)) faults.push_back(std::move(fault));
      id = profile.id;
    }
    const std::string_view what = is_toolchain ? "toolchain" : "device";
    json::object result{{"valid", faults.empty()}, {"kind", what}, {"id", id}};
    std::string lines;
    json::array list;
    for (const ProfileFault& fault : faults) {
      lines += one_line(fmt::format("{}: {}", fault.path, fault.message)) + "\n";
      list.push_back(json::object{{"path", fault.path}, {"message", fault.message}});
    }
    result["faults"] = std::move(list);
    if (faults.empty())
      return print_result(context, fmt::format("{}: a good profile of the {} {}\n", one_line(*name_), what, id),
                          result);
    const Error error = bad_input("{}: {} fault{}", *name_, faults.size(), faults.size() == 1 ? "" : "s");
    if (context.json)
      result["error"] = json::object{{"code", static_cast<int>(error.code)}, {"message", error.message}};
    TRY_VOID(print_result(context, lines, result));
    TRY_VOID(context.out.flush());  // what is still held back when an error is returned is dropped
    if (context.json) return static_cast<int>(error.code);
    return error;
  }

  Result<int> measure(Context& context) const {
    TRY(const MeasuredHost measured, measure_host(context, seconds_));
    std::string text = machine_text(measured.machine);
    if (!measured.kept.empty()) text += fmt::format("\nkept as {}: the device `host`\n", one_line(measured.kept));
    return print_result(context, text, measured.profile);
  }

  std::optional<std::string> action_;
  std::optional<std::string> name_;
  bool npu_ = false;
  double seconds_ = 0.3;
};

}  // namespace

std::unique_ptr<Command> make_devices_command() { return std::make_unique<DevicesCommand>(); }

}  // namespace knapsack
