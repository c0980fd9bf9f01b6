#include "files/onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>

#include "base/mmap.h"
#include "base/utf8.h"
#include "files/onnx_parse.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

struct TypeInfo {
  OnnxType type;
  std::string_view name;
  int bits;
};
constexpr std::array<TypeInfo, 21> types = {{
    {OnnxType::undefined, "undefined", 0},
    {OnnxType::f32, "float", 32},
    {OnnxType::u8, "uint8", 8},
    {OnnxType::i8, "int8", 8},
    {OnnxType::u16, "uint16", 16},
    {OnnxType::i16, "int16", 16},
    {OnnxType::i32, "int32", 32},
    {OnnxType::i64, "int64", 64},
    {OnnxType::string, "string", 0},
    {OnnxType::boolean, "bool", 8},
    {OnnxType::f16, "float16", 16},
    {OnnxType::f64, "double", 64},
    {OnnxType::u32, "uint32", 32},
    {OnnxType::u64, "uint64", 64},
    {OnnxType::bf16, "bfloat16", 16},
    {OnnxType::f8_e4m3fn, "float8e4m3fn", 8},
    {OnnxType::f8_e4m3fnuz, "float8e4m3fnuz", 8},
    {OnnxType::f8_e5m2, "float8e5m2", 8},
    {OnnxType::f8_e5m2fnuz, "float8e5m2fnuz", 8},
    {OnnxType::u4, "uint4", 4},
    {OnnxType::i4, "int4", 4},
}};
const TypeInfo* info_of(OnnxType type) {
  const auto* info = std::find_if(types.begin(), types.end(), [&](const auto& t) { return t.type == type; });
  return info == types.end() ? nullptr : info;
}

// Tensors whose data lie outside get it, and what they lie in as their owner.
class ExternalFiles {
 public:
  explicit ExternalFiles(const std::string& model) : model_(model) {}

  Result<void> fill(OnnxGraph& graph) {
    for (auto& tensor : graph.initializers) TRY_VOID(fill(tensor));
    return fill(graph.nodes);
  }
  Result<void> fill(std::vector<OnnxNode>& nodes) {
    for (auto& node : nodes) TRY_VOID(fill(node.attributes));
    return {};
  }
  Result<void> fill(std::vector<OnnxAttribute>& attributes) {
    for (auto& attribute : attributes) {
      for (auto& tensor : attribute.tensors) TRY_VOID(fill(tensor));
      for (auto& graph : attribute.graphs) TRY_VOID(fill(graph));
    }
    return {};
  }

 private:
  Result<void> fill(OnnxTensor& tensor) {
    if (!tensor.place) return {};
    const OnnxPlace& place = *tensor.place;
    TRY(const auto file, file_of(place.location, tensor.name));
    const std::uint64_t size = *onnx_bytes(tensor.type, tensor.dims);  // looked at when parsed
    const std::uint64_t there = file->bytes().size();
    if (place.offset > there || size > there - place.offset)
      return bad_input(
          "{}: tensor {}: {} bytes from byte {} of {} reach past its end at byte {} (an incomplete download, or a file "
          "of another model?)",
          model_, printable(tensor.name), size, place.offset, file->path(), there);
    tensor.data = file->bytes().subspan(place.offset, size);
    tensor.owner = file;
    return {};
  }

  Result<std::shared_ptr<const MappedFile>> file_of(const std::string& location, const std::string& tensor) {
    if (const auto known = files_.find(location); known != files_.end()) return known->second;
    const auto refused = [&](std::string_view why) {
      return bad_input("{}: tensor {} lies in {}, {}; expected a file in the model's folder", model_, printable(tensor),
                       printable(location), why);
    };
    const fs::path relative(location);
    if (location.find('\0') != std::string::npos || location.find('\\') != std::string::npos)
      return refused("which is no path with '/'");
    if (relative.is_absolute()) return refused("an absolute path");
    if (std::find(relative.begin(), relative.end(), "..") != relative.end())
      return refused("which leads out of the model's folder");
    const fs::path folder = fs::path(model_).parent_path().empty() ? fs::path(".") : fs::path(model_).parent_path();
    std::error_code failed;
    const fs::path real = fs::canonical(folder / relative, failed);
    if (failed)
      return bad_input("{}: tensor {} lies in {}: {}; put that file beside the model", model_, printable(tensor),
                       printable((folder / relative).string(), path_shown), failed.message());
    // Below the model's folder, or beside the file that the model's name links to.
    const fs::path below = fs::canonical(folder, failed);
    const fs::path beside = fs::canonical(model_, failed).parent_path();
    const bool linked = fs::is_symlink(model_, failed);
    const bool within = std::mismatch(below.begin(), below.end(), real.begin(), real.end()).first == below.end();
    if (!within && !(linked && real.parent_path() == beside))
      return refused(fmt::format("a link to {}", printable(real.string(), path_shown)));
    auto file = MappedFile::open(real.string());
    if (!file)
      return Error{file.error().code,
                   fmt::format("{}: tensor {}: {}", model_, printable(tensor), file.error().message)};
    files_.emplace(location, *file);
    return *file;
  }

  static constexpr std::size_t path_shown = 300;
  const std::string& model_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;  // by location
};

OnnxAttribute typed(std::string name, OnnxAttributeType type) {
  OnnxAttribute made;
  made.name = std::move(name);
  made.type = type;
  return made;
}

}  // namespace

std::string onnx_type_name(OnnxType type) {
  const TypeInfo* info = info_of(type);
  return info != nullptr ? std::string(info->name) : fmt::format("type {}", static_cast<int>(type));
}

int onnx_type_bits(OnnxType type) {
  const TypeInfo* info = info_of(type);
  return info != nullptr ? info->bits : 0;
}

std::optional<std::uint64_t> onnx_bytes(OnnxType type, std::span<const std::int64_t> dims) {
  const int bits = onnx_type_bits(type);
  if (bits == 0 || std::any_of(dims.begin(), dims.end(), [](std::int64_t dim) { return dim < 0; })) return std::nullopt;
  // A zero makes the whole zero, whatever the product of the others is.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  std::int64_t elements = 1;
  for (const std::int64_t dim : dims)
    if (__builtin_mul_overflow(elements, dim, &elements)) return std::nullopt;
  if (bits < 8) return (static_cast<std::uint64_t>(elements) + 1) / 2;
  std::int64_t size = 0;
  if (__builtin_mul_overflow(elements, std::int64_t{bits / 8}, &size)) return std::nullopt;
  return static_cast<std::uint64_t>(size);
}

std::string_view onnx_attribute_type_name(OnnxAttributeType type) {
  switch (type) {
    case OnnxAttributeType::undefined:
      return "undefined";
    case OnnxAttributeType::f:
      return "float";
    case OnnxAttributeType::i:
      return "int";
    case OnnxAttributeType::s:
      return "string";
    case OnnxAttributeType::tensor:
      return "tensor";
    case OnnxAttributeType::graph:
      return "graph";
    case OnnxAttributeType::floats:
      return "floats";
    case OnnxAttributeType::ints:
      return "ints";
    case OnnxAttributeType::strings:
      return "strings";
    case OnnxAttributeType::tensors:
      return "tensors";
    case OnnxAttributeType::graphs:
      return "graphs";
    case OnnxAttributeType::sparse_tensor:
      return "sparse tensor";
    case OnnxAttributeType::sparse_tensors:
      return "sparse tensors";
    case OnnxAttributeType::type_proto:
      return "type";
    case OnnxAttributeType::type_protos:
      return "types";
  }
  return "";
}

std::string_view onnx_kind_name(OnnxKind kind) {
  switch (kind) {
    case OnnxKind::none:
      return "no type";
    case OnnxKind::tensor:
      return "tensor";
    case OnnxKind::sparse_tensor:
      return "sparse tensor";
    case OnnxKind::sequence:
      return "sequence";
    case OnnxKind::map:
      return "map";
    case OnnxKind::optional:
      return "optional";
    case OnnxKind::opaque:
      return "opaque";
  }
  return "";
}

OnnxAttribute onnx_attribute(std::string name, float value) {
  OnnxAttribute made = typed(std::move(name), OnnxAttributeType::f);
  made.f = value;
  return made;
}
OnnxAttribute onnx_attribute(std::string name, std::string value) {
  OnnxAttribute made = typed(std::move(name), OnnxAttributeType::s);
  made.s = std::move(value);
  return made;
}
OnnxAttribute onnx_attribute(std::string name, std::vector<std::int64_t> values) {
  OnnxAttribute made = typed(std::move(name), OnnxAttributeType::ints);
  made.ints = std::move(values);
  return made;
}
OnnxAttribute onnx_attribute(std::string name, OnnxTensor value) {
  OnnxAttribute made = typed(std::move(name), OnnxAttributeType::tensor);
  made.tensors.push_back(std::move(value));
  return made;
}

const OnnxAttribute* OnnxNode::attribute(std::string_view attribute_name) const {
  const auto found =
      std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.name == attribute_name; });
  return found == attributes.end() ? nullptr : &*found;
}

Result<OnnxModel> read_onnx(const std::string& path) {
  TRY(const auto file, MappedFile::open(path));
  TRY(OnnxModel model, parse_onnx(file->bytes(), path, file));
  ExternalFiles files(path);
  TRY_VOID(files.fill(model.graph));
  for (auto& function : model.functions) {
    TRY_VOID(files.fill(function.nodes));
    TRY_VOID(files.fill(function.defaults));
  }
  return model;
}

}  // namespace knapsack
