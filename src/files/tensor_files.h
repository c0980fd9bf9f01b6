// What an opened GGUF and opened safetensors have in common: mapped parts, their headers, tensors found by name.
// Not for parsing: a part comes here checked.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mmap.h"
#include "base/result.h"
#include "base/utf8.h"

namespace knapsack {

// Interface: GgufFile or SafetensorsFiles; Tensor: what it gives out, with `name` and `part`.
template <class Interface, class Tensor>
class TensorFiles : public Interface {
 public:
  [[nodiscard]] std::span<const Tensor> tensors() const final { return tensors_; }
  [[nodiscard]] const Tensor* tensor(std::string_view name) const final {
    const auto entry = names_.find(name);
    return entry == names_.end() ? nullptr : &tensors_[entry->second];
  }
  [[nodiscard]] std::span<const std::shared_ptr<const MappedFile>> parts() const final { return files_; }
  [[nodiscard]] std::span<const std::byte> header(int part) const final {
    const auto index = static_cast<std::size_t>(part);
    return files_[index]->bytes().first(header_bytes_[index]);
  }

  // After the last part. Only finds a name that two parts have; within one the parser has looked already.
  Result<void> index_tensors() {
    names_.reserve(tensors_.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const auto [entry, fresh] = names_.emplace(tensors_[i].name, i);
      if (!fresh)
        return bad_input("{}: tensor {} is in {} too", file_of(tensors_[i]), printable(tensors_[i].name),
                         file_of(tensors_[entry->second]));
    }
    return {};
  }

 protected:
  void add_part(std::shared_ptr<const MappedFile> file, std::size_t header_bytes) {
    files_.push_back(std::move(file));
    header_bytes_.push_back(header_bytes);
  }
  // A tensor of the part that was added last.
  void add_tensor(Tensor tensor) {
    tensor.part = static_cast<int>(files_.size()) - 1;
    tensors_.push_back(std::move(tensor));
  }

 private:
  [[nodiscard]] const std::string& file_of(const Tensor& tensor) const {
    return files_[static_cast<std::size_t>(tensor.part)]->path();
  }

  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> names_;
  std::vector<std::size_t> header_bytes_;
};

}  // namespace knapsack
