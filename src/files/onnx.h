// ONNX models as they stand in a file (onnx-ml.proto, IR versions up to 14): graph, initializers, local functions.
// Not for what operators mean, and not a graph to work on: import/ and export/ know our own.
//
// Everything is checked at open: sizes before memory is asked for, each tensor's data against its shape, places in
// external files against these. Not checked: whether what a node reads exists, and operators' own rules.
//
// Who reads must expect what this version has no use for but keeps, to be refused by its name: subgraphs, local
// functions, sparse tensors, values that are no tensors. What is for people only is left out: doc_string, and metadata
// but the model's own.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace knapsack {

// Numbers of TensorProto.DataType. Others than these may stand in a value's type; a tensor of such a type is refused.
enum class OnnxType : std::uint8_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16,
  f8_e4m3fn = 17,
  f8_e4m3fnuz = 18,
  f8_e5m2 = 19,
  f8_e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
};

// "float", "float16" ..., the standard's names in small letters; "type 27" where it is none of the above.
std::string onnx_type_name(OnnxType type);
// Bits of an element in memory and files; 0 of a type whose tensors are not read.
int onnx_type_bits(OnnxType type);
// Bytes of a tensor: 4-bit elements two a byte, the first in the lower bits, without padding of rows. Nothing where a
// dimension is negative, the type has no size, or the number passes 2^63.
std::optional<std::uint64_t> onnx_bytes(OnnxType type, std::span<const std::int64_t> dims);

// Where a tensor lies outside of the model's file.
struct OnnxPlace {
  std::string location;  // from the folder of the model's file, with '/'
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;  // absent: the file does not say it
};

struct OnnxTensor {
  std::string name;
  OnnxType type{};
  std::vector<std::int64_t> dims{};     // empty: a scalar; a dimension may be 0
  std::span<const std::byte> data{};    // little-endian; not aligned: read it with memcpy
  std::shared_ptr<const void> owner{};  // of `data`; null where the caller of parse_onnx keeps it
  std::optional<OnnxPlace> place{};     // absent: in the model's file
};

struct OnnxGraph;

// Numbers of AttributeProto.AttributeType.
enum class OnnxAttributeType : std::uint8_t {
  undefined = 0,
  f = 1,
  i = 2,
  s = 3,
  tensor = 4,
  graph = 5,
  floats = 6,
  ints = 7,
  strings = 8,
  tensors = 9,
  graphs = 10,
  sparse_tensor = 11,  // of this one and what follows only the type is kept
  sparse_tensors = 12,
  type_proto = 13,
  type_protos = 14,
};
std::string_view onnx_attribute_type_name(OnnxAttributeType type);

// One of the values, as `type` says.
struct OnnxAttribute {
  std::string name;
  OnnxAttributeType type{};
  std::string ref{};  // in a local function: the function's attribute whose value it takes; then no value stands here
  float f = 0;
  std::int64_t i = 0;
  std::string s{};  // bytes, mostly text
  std::vector<float> floats{};
  std::vector<std::int64_t> ints{};
  std::vector<std::string> strings{};
  std::vector<OnnxTensor> tensors{};  // one, of `tensor`
  std::vector<OnnxGraph> graphs;      // one, of `graph`; no {} here, where it has no size yet
};

// Operators of the domain "ai.onnx" stand with domain "": both name the standard's own.
struct OnnxNode {
  std::string name{};  // may be empty
  std::string op_type;
  std::string domain{};
  std::string overload{};
  std::vector<std::string> inputs{};  // "": an optional one that is not given
  std::vector<std::string> outputs{};
  std::vector<OnnxAttribute> attributes{};

  [[nodiscard]] const OnnxAttribute* attribute(std::string_view attribute_name) const;  // null: not given
};

// A number, or a name for one, or neither: unknown.
struct OnnxDim {
  std::optional<std::int64_t> number{};
  std::string symbol{};
};

enum class OnnxKind : std::uint8_t { none, tensor, sparse_tensor, sequence, map, optional, opaque };
std::string_view onnx_kind_name(OnnxKind kind);

struct OnnxValue {
  std::string name;
  OnnxKind kind = OnnxKind::tensor;
  OnnxType type{};                              // of a tensor's elements
  std::optional<std::vector<OnnxDim>> shape{};  // of a tensor; absent: the rank is not known
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes{};
  std::vector<OnnxTensor> initializers{};  // each has a name, and no two the same
  std::vector<OnnxValue> inputs{};         // before IR version 4 initializers are inputs, too
  std::vector<OnnxValue> outputs{};
  std::vector<OnnxValue> values{};                 // value_info: what is known of values in between
  std::vector<std::string> sparse_initializers{};  // names alone
};

// For who writes: attributes of the common types.
template <std::integral T>
OnnxAttribute onnx_attribute(std::string name, T value) {
  OnnxAttribute made;
  made.name = std::move(name);
  made.type = OnnxAttributeType::i;
  made.i = static_cast<std::int64_t>(value);
  return made;
}
OnnxAttribute onnx_attribute(std::string name, float value);
OnnxAttribute onnx_attribute(std::string name, std::string value);
OnnxAttribute onnx_attribute(std::string name, std::vector<std::int64_t> values);
OnnxAttribute onnx_attribute(std::string name, OnnxTensor value);

using OnnxOpsets = std::map<std::string, std::int64_t>;  // domain -> version

// A node whose domain, op_type and overload are the function's domain, name and overload stands for its nodes.
struct OnnxFunction {
  std::string domain{};
  std::string name;
  std::string overload{};
  std::vector<std::string> inputs{};
  std::vector<std::string> outputs{};
  std::vector<std::string> attributes{};  // names of those without default
  std::vector<OnnxAttribute> defaults{};
  OnnxOpsets opsets{};
  std::vector<OnnxNode> nodes{};
  std::vector<OnnxValue> values{};
};

struct OnnxModel {
  std::int64_t ir_version = 0;
  std::string producer{};  // producer_name
  std::string producer_version{};
  OnnxOpsets opsets{};
  OnnxGraph graph{};
  std::vector<std::pair<std::string, std::string>> metadata{};  // metadata_props
  std::vector<OnnxFunction> functions{};
};

// The model, its file and external files mapped; tensors own what they lie in. An external file must lie in the
// model's folder or below: absolute paths, "..", and links that lead out are refused, but for links of the model's file
// and its data into one and the same folder, as Hugging Face's cache has them.
Result<OnnxModel> read_onnx(const std::string& path);

}  // namespace knapsack
