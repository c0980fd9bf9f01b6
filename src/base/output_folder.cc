#include "base/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/leftovers.h"

namespace knapsack {

namespace fs = std::filesystem;

Result<OutputFolder> OutputFolder::create(const std::string& path) {
  OutputFolder folder;
  std::error_code failed;
  fs::path whole;
  for (const fs::path& part : fs::path(path)) {
    whole /= part;
    if (part.empty() || fs::exists(whole, failed)) continue;
    if (fs::create_directory(whole, failed)) {
      folder.made_.push_back(whole.string());
      remember_path(folder.made_.back());
    }
    if (failed) return usage_error("{}: cannot make this folder: {}", path, failed.message());
  }
  folder.fd_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder.fd_ < 0) return usage_error("{}: cannot open this folder: {}", path, std::strerror(errno));
  if (::flock(folder.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return usage_error("{}: another process is writing into this folder; wait for its end, or name another folder",
                       path);
  return folder;
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), made_(std::move(other.made_)) {
  other.made_.clear();
}

OutputFolder::~OutputFolder() {
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) {
    ::rmdir(path->c_str());  // which leaves it where something is in it
    forget_path(*path);
  }
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace knapsack
