// A folder that a command writes several files into, which belong together: made where it is not there, its own while
// the command runs, and gone again where nothing came to be in it. Not for the files: base/atomic_file.h.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace knapsack {

class OutputFolder {
 public:
  // Usage: it cannot be made, or another process holds it. The lock ends with the process, however that ends; where the
  // file system has no such locks (some network ones), there is none.
  static Result<OutputFolder> create(const std::string& path);
  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  ~OutputFolder();  // removes the folders that it made and that are empty

 private:
  OutputFolder() = default;
  int fd_ = -1;
  std::vector<std::string> made_;  // outermost first
};

}  // namespace knapsack
