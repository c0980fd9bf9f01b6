// TensorProto: where a tensor's data stand, and whether they are its shape's. A part of the parser in onnx_parse.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "files/onnx_fields.h"

namespace knapsack {

// Of what is sane; real models have 8.
constexpr std::size_t onnx_most_dims = 64;

class OnnxTensorParser : public OnnxFields {
 public:
  using OnnxFields::OnnxFields;

 protected:
  Result<OnnxTensor> tensor(const OnnxMessage& message);

 private:
  [[nodiscard]] Result<std::uint64_t> size_of(const OnnxTensor& tensor, const std::string& what) const;
  // Elements out of their own field, packed or one by one, as little-endian bytes. Packed floats stay where they are.
  Result<void> typed(OnnxTensor& tensor, const std::vector<ProtoField>& fields, const std::string& what,
                     std::uint64_t size);
  // Whether a number of int32_data or uint64_data is one of the type's.
  [[nodiscard]] Result<void> number(std::uint64_t value, OnnxType type, std::size_t at, const std::string& what) const;
  [[nodiscard]] Result<OnnxPlace> place(const std::vector<std::pair<std::string, std::string>>& entries,
                                        const std::string& what, std::uint64_t size) const;
};

}  // namespace knapsack
