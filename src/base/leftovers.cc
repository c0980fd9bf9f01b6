#include "base/leftovers.h"

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <new>
#include <set>

namespace knapsack {
namespace {

struct Leftovers {
  std::mutex mutex;
  std::set<std::string> paths;
  std::set<int> processes;
};
Leftovers& leftovers() {
  // Never destroyed: a signal may come while main returns. Not from the heap: it is asked when memory has run out, too.
  alignas(Leftovers) static std::array<std::byte, sizeof(Leftovers)> place;
  static Leftovers* const made = new (place.data()) Leftovers;
  return *made;
}

}  // namespace

void remember_path(const std::string& path) {
  const std::lock_guard lock(leftovers().mutex);
  leftovers().paths.insert(path);
}
void forget_path(const std::string& path) {
  const std::lock_guard lock(leftovers().mutex);
  leftovers().paths.erase(path);
}
void remember_process(int pid) {
  const std::lock_guard lock(leftovers().mutex);
  leftovers().processes.insert(pid);
}
void forget_process(int pid) {
  const std::lock_guard lock(leftovers().mutex);
  leftovers().processes.erase(pid);
}

void remove_leftovers() {
  const std::lock_guard lock(leftovers().mutex);
  for (const int pid : leftovers().processes) ::kill(-pid, SIGKILL);
  // A folder's name comes before the names in it.
  for (auto path = leftovers().paths.rbegin(); path != leftovers().paths.rend(); ++path) std::remove(path->c_str());
}

}  // namespace knapsack
