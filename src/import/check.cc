// `inspect --check`: every byte of a checkpoint is hashed, every stored tensor searched for NaN and infinity.
#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "files/gguf.h"
#include "files/safetensors.h"
#include "import/import.h"
#include "tensor/scan.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_faults = 20;
constexpr std::size_t piece = std::size_t{4} << 20;  // hashed between two calls of progress

struct Progress {
  const std::function<void(double)>& report;
  double total = 1;
  double done = 0;
  void add(std::size_t bytes) {
    done += static_cast<double>(bytes);
    if (report) report(std::min(1.0, done / total));
  }
};

void hash_file(const MappedFile& file, Sha256& hash, Progress& progress) {
  for (auto rest = file.bytes(); !rest.empty();) {
    const auto part = rest.first(std::min(piece, rest.size()));
    hash.update(part);
    progress.add(part.size());
    rest = rest.subspan(part.size());
  }
}

void scan_tensor(const std::string& file, const std::string& name, DType dtype, std::span<const std::byte> data,
                 CheckReport& report, Progress& progress) {
  if (const auto fault = scan(dtype, data); fault && report.faults.size() < max_faults)
    report.faults.push_back(fmt::format("{}: tensor {}: {} values are NaN or infinite, the first ({}) at element {}",
                                        file, name, fault->count, fault->value, fault->index));
  progress.add(data.size());
}

template <class Files>
void scan_all(const Files& files, CheckReport& report, Progress& progress) {
  for (const auto& tensor : files.tensors())
    scan_tensor(files.parts()[static_cast<std::size_t>(tensor.part)]->path(), tensor.name, tensor.dtype, tensor.data,
                report, progress);
}

double bytes_of(std::span<const std::shared_ptr<const MappedFile>> parts) {
  double bytes = 0;
  for (const auto& part : parts) bytes += static_cast<double>(part->bytes().size());
  return bytes;
}

// Names count where there are several files: the same bytes under other names are another model.
Result<CheckReport> check_folder(const std::string& folder, const std::function<void(double)>& progress) {
  std::vector<std::string> warnings;
  TRY(const auto files, SafetensorsFiles::open_folder(folder, warnings));
  std::vector<fs::path> paths;
  double total = bytes_of(files->parts());
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error)) continue;
    paths.push_back(entry.path());
    total += static_cast<double>(entry.file_size(error));
  }
  if (error) return bad_input("{}: cannot be listed: {}", folder, error.message());
  std::sort(paths.begin(), paths.end());
  Progress steps{progress, total};
  CheckReport report;
  Sha256 hash;
  for (const fs::path& path : paths) {
    TRY(const auto file, MappedFile::open(path.string()));
    hash.update(path.filename().string());
    hash.update(std::string_view("\0", 1));
    hash_file(*file, hash, steps);
  }
  report.sha256 = hash.hex();
  scan_all(*files, report, steps);
  return report;
}

Result<CheckReport> check_gguf(const std::string& path, const std::function<void(double)>& progress) {
  TRY(const auto file, GgufFile::open(path));
  Progress steps{progress, 2 * bytes_of(file->parts())};
  CheckReport report;
  Sha256 hash;  // of one file: what sha256sum says
  for (const auto& part : file->parts()) hash_file(*part, hash, steps);
  report.sha256 = hash.hex();
  scan_all(*file, report, steps);
  return report;
}

}  // namespace

Result<CheckReport> check_model(const std::string& path, const std::function<void(double)>& progress) {
  std::error_code error;
  auto report = fs::is_directory(path, error) ? check_folder(path, progress) : check_gguf(path, progress);
  if (report && progress) progress(1);  // headers were hashed, not scanned: the sum above stays a little short
  return report;
}

}  // namespace knapsack
