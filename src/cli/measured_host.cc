#include "cli/measured_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/log.h"
#include "cli/interrupt.h"
#include "cli/json_text.h"
#include "pipeline/measure_engine.h"
#include "report/progress.h"

namespace knapsack {
namespace {

// Where it is kept: the path; empty: there is no folder to keep it in.
Result<std::string> keep(const json::object& profile) {
  const std::string folder = devices_folder();
  if (folder.empty()) return std::string();
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return usage_error("{}: the folder cannot be made: {}", folder, failed.message());
  const std::string path = (std::filesystem::path(folder) / "host.json").string();
  TRY(auto file, AtomicFile::create(path));
  TRY_VOID(file.write(json_text(profile) + "\n"));
  TRY_VOID(file.commit());
  return path;
}

// A fuller measurement of this machine is worth more than a brief one. Empty: nothing speaks against keeping it.
std::string why_not_instead(const EngineSpeed& engine) {
  const auto devices = Devices::in_use();
  const auto before = devices ? devices->find("host") : Result<Device>(devices.error());
  if (!before || !before->profile.machine || !before->profile.machine->engine) return "";
  const EngineSpeed& kept = *before->profile.machine->engine;
  if (kept.matrices.size() > engine.matrices.size())
    return "what is kept was measured at more length (leave --seconds out)";
  if (kept.threads > engine.threads)
    return fmt::format("what is kept was measured with {} threads (leave --threads out)", kept.threads);
  return "";
}

bool is_host(std::string_view which) {
  constexpr std::string_view host = "host";
  return std::equal(which.begin(), which.end(), host.begin(), host.end(),
                    [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

}  // namespace

Result<MeasuredHost> measure_host(Context& context, double seconds) {
  MeasuredHost out;
  out.machine.host = read_host();
  const int threads = context.threads > 0 ? context.threads : out.machine.host.usable_cores;
  Progress progress("measuring", "permille", context.quiet);
  Interruptible interruptible;
  const auto part = [&progress](double from, double to) {
    return [&progress, from, to](double done) {
      progress.update(static_cast<std::uint64_t>((from + (to - from) * done) * 1000), 1000);
    };
  };
  constexpr double peaks_share = 0.3;  // of the time
  MeasureOptions options{.threads = thread_counts(threads), .ms = seconds * 1000, .progress = part(0, peaks_share)};
  options.stop = interruptible.token();
  TRY(out.machine.peaks, measure_peaks(out.machine.host, options));
  constexpr double brief = 0.05;  // seconds: whoever asks for less wants to see that it works
  TRY(out.machine.engine, measure_engine(threads, seconds < brief ? brief_engine_shapes() : usual_engine_shapes(),
                                         part(peaks_share, 1), interruptible.token()));
  progress.finish();
  out.profile = host_profile(out.machine);
  if (const std::string why = why_not_instead(*out.machine.engine); !why.empty()) {
    warn("not kept as the device `host`: {}", why);
    return out;
  }
  auto kept = keep(out.profile);
  if (kept) {
    out.kept = std::move(*kept);
  } else {
    warn("not kept as the device `host`: {}", kept.error().message);
  }
  return out;
}

Result<Device> device_or_measured_host(Context& context, const Devices& devices, const std::string& which) {
  TRY(Device device, devices.find(which));
  if (!is_host(which) || !device.profile.machine || device.profile.machine->engine) return device;
  if (!context.quiet) warn("this machine was not measured before: measuring it now, once");
  constexpr double seconds = 0.3;
  TRY(const MeasuredHost measured, measure_host(context, seconds));
  device.json = measured.profile;
  TRY(device.profile, read_profile(json::serialize(device.json), device.origin));
  return device;
}

}  // namespace knapsack
