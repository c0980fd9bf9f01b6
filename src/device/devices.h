// Where profiles and toolchains' tables are found: in the program, in the user's folder, whose files win, or in a file
// that is named. Not for what they say: profile.h, toolchain.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "device/profile.h"
#include "device/toolchain.h"

namespace knapsack {

struct Device {
  DeviceProfile profile{};
  json::object json{};   // as it stands in the file
  std::string origin{};  // the file's path; empty: built in; of a `host` that was not measured: "this machine"
};

// The user's: $KNAPSACK_DEVICES (set but empty: none), else knapsack/devices in the XDG configuration folder. Empty:
// there is none to look in. It may not exist.
std::string devices_folder();

class Devices {
 public:
  // What is built in and what is in the user's folder; the files themselves are read when they are asked for. The
  // second for tests: "" is no folder.
  static Result<Devices> in_use();
  static Result<Devices> with_folder(const std::string& folder);

  // Sorted, `host` among them.
  [[nodiscard]] std::vector<std::string> ids() const;
  // By id, alias or name, without regard to case; "x.json", and else what has a slash, is a file. `host` is what
  // `knapsack devices measure` has kept of this machine in the user's folder, else what is known of it without
  // measuring. An unknown one is a usage error with the three nearest ids.
  [[nodiscard]] Result<Device> find(const std::string& which) const;

  [[nodiscard]] std::vector<std::string> toolchain_ids() const;
  // By id, or by what stands before the version in one of `among`'s (a device's) or else of all; or a file. Behind an @
  // the version one has: "qairt@2.45", which the table must cover; the newest otherwise. An unknown one is a usage
  // error with the three nearest names, or with the versions that there are tables of.
  [[nodiscard]] Result<Toolchain> toolchain(const std::string& which, const std::vector<std::string>& among = {}) const;
  // That of a device: the one asked for, or else the first that its profile names; nothing: it names none.
  [[nodiscard]] Result<std::optional<Toolchain>> toolchain_of(const DeviceProfile& profile,
                                                              const std::optional<std::string>& asked) const;
  // Of a profile: the toolchains it names that there are no tables of.
  [[nodiscard]] std::vector<ProfileFault> unknown_toolchains(const DeviceProfile& profile) const;

 private:
  struct Entry {
    std::string name;       // the file's, without .json
    std::string path;       // empty: built in
    std::string_view text;  // of what is built in
  };
  [[nodiscard]] static Result<std::string> text_of(const Entry& entry);
  [[nodiscard]] static Result<Device> read(const Entry& entry);
  [[nodiscard]] static Result<Toolchain> read_table(const Entry& entry);
  [[nodiscard]] Result<std::vector<Toolchain>> tables(const std::string& which,
                                                      const std::vector<std::string>& among) const;
  [[nodiscard]] static const Entry* named(const std::vector<Entry>& entries, std::string_view name);

  std::vector<Entry> devices_;  // by name; the user's stand in the place of those built in
  std::vector<Entry> toolchains_;
};

// A profile (or its file) that is at most so large is read.
constexpr std::size_t most_profile_bytes = std::size_t{4} << 20;

// This machine as a profile, with what was measured of it; the figures' source is `knapsack devices measure`.
json::object host_profile(const Machine& machine);

}  // namespace knapsack
