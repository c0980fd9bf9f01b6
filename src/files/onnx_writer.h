// Writes ONNX models (onnx.h): the same model gives the same bytes, fields in the order of their numbers, as protobuf's
// own writers have them. Weights may lie in one file beside several models (OnnxDataFile). Aside and renamed.
//
// The order that leaves nothing half done: fill the data file, commit() it, then write the models that name it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/result.h"
#include "files/onnx.h"

namespace knapsack {

struct OnnxDataOptions {
  Existing existing = Existing::replaced;
  // Where tensors begin: multiples of `alignment`, which vector units like, and from `large` bytes on multiples of
  // `large_alignment`, so that a reader can map each by itself: a page (the standard's advice). Powers of two.
  std::uint64_t alignment = 64;
  std::uint64_t large_alignment = 4096;
  std::uint64_t large = std::uint64_t{64} << 10;
};

// One file of weights for several models of its folder. One piece of one tensor is in memory at a time.
class OnnxDataFile {
 public:
  // Takes the next bytes of a tensor.
  using Append = std::function<Result<void>(std::span<const std::byte>)>;

  static Result<OnnxDataFile> create(const std::string& path, OnnxDataOptions options = {});
  // A tensor to put among a model's initializers. `produce` is called once and appends exactly its bytes, in as many
  // pieces as it likes (rows); where the name was added before, with the same type and shape, it is not called at all.
  // After an error of produce the file can only be given up.
  Result<OnnxTensor> add(const std::string& name, OnnxType type, std::vector<std::int64_t> dims,
                         const std::function<Result<void>(const Append&)>& produce);
  Result<OnnxTensor> add(const OnnxTensor& tensor);  // one that is in memory
  Result<void> commit();

 private:
  OnnxDataFile(AtomicFile file, std::string location, OnnxDataOptions options)
      : file_(std::move(file)), location_(std::move(location)), options_(options) {}
  AtomicFile file_;
  std::string location_;
  OnnxDataOptions options_;
  std::map<std::string, OnnxTensor> added_;
  bool broken_ = false;
};

// Initializers of at least `least` bytes go to the data file. 1024 is what PyPI onnx takes for its own.
Result<void> move_initializers(OnnxModel& model, OnnxDataFile& data, std::uint64_t least = 1024);

// The bytes of the model's file. path: for messages. What onnx.h keeps by its type alone cannot be written.
Result<std::string> encode_onnx(const OnnxModel& model, const std::string& path);

// Tensors with a place are written as lying there, which must be in the folder of `path`; the data of others stands in
// the model's file, which protobuf limits to 2 GiB. (To move what was read elsewhere: place.reset(), and
// move_initializers where it is large.)
Result<void> write_onnx(const std::string& path, const OnnxModel& model, Existing existing = Existing::replaced);

}  // namespace knapsack
