#include "files/onnx_writer.h"

#include <filesystem>

#include "base/check.h"
#include "base/utf8.h"
#include "files/protobuf.h"

namespace knapsack {
namespace {

// A message's length is an int in protobuf's readers.
constexpr std::uint64_t message_limit = INT32_MAX;

class Encoder {
 public:
  const std::string& model(const OnnxModel& model) {
    out_.integer(1, model.ir_version);
    text(2, model.producer);
    text(3, model.producer_version);
    out_.message(7, [&] { graph(model.graph); });
    opsets(8, model.opsets);
    for (const auto& [key, value] : model.metadata) pair(14, key, value);
    for (const auto& one : model.functions) out_.message(25, [&] { function(one); });
    return out_.written();
  }

 private:
  // Absent and empty are the same to all readers.
  void text(std::uint32_t field, const std::string& value) {
    if (!value.empty()) out_.text(field, value);
  }
  void texts(std::uint32_t field, const std::vector<std::string>& values) {
    for (const auto& value : values) out_.text(field, value);
  }
  void pair(std::uint32_t field, const std::string& key, const std::string& value) {
    out_.message(field, [&] {
      out_.text(1, key);
      out_.text(2, value);
    });
  }
  void opsets(std::uint32_t field, const OnnxOpsets& imports) {
    for (const auto& entry : imports) {
      out_.message(field, [&] {
        text(1, entry.first);
        out_.integer(2, entry.second);
      });
    }
  }

  void graph(const OnnxGraph& graph) {
    CHECK(graph.sparse_initializers.empty());
    for (const auto& one : graph.nodes) out_.message(1, [&] { node(one); });
    text(2, graph.name);
    for (const auto& one : graph.initializers) {
      CHECK(!one.name.empty());
      out_.message(5, [&] { tensor(one); });
    }
    values(11, graph.inputs);
    values(12, graph.outputs);
    values(13, graph.values);
  }

  void node(const OnnxNode& node) {
    texts(1, node.inputs);
    texts(2, node.outputs);
    text(3, node.name);
    out_.text(4, node.op_type);
    for (const auto& one : node.attributes) out_.message(5, [&] { attribute(one); });
    text(7, node.domain);
    text(8, node.overload);
  }

  void attribute(const OnnxAttribute& attribute) {
    using Type = OnnxAttributeType;
    out_.text(1, attribute.name);
    const bool value = attribute.ref.empty();
    CHECK(!value || (attribute.type != Type::undefined && attribute.type <= Type::graphs));
    const auto is = [&](Type type) { return value && attribute.type == type; };
    if (is(Type::f)) out_.f32(2, attribute.f);
    if (is(Type::i)) out_.integer(3, attribute.i);
    if (is(Type::s)) out_.text(4, attribute.s);
    CHECK(!is(Type::tensor) || attribute.tensors.size() == 1);
    CHECK(!is(Type::graph) || attribute.graphs.size() == 1);
    if (is(Type::tensor)) out_.message(5, [&] { tensor(attribute.tensors.front()); });
    if (is(Type::graph)) out_.message(6, [&] { graph(attribute.graphs.front()); });
    if (is(Type::floats))
      for (const float one : attribute.floats) out_.f32(7, one);
    if (is(Type::ints))
      for (const std::int64_t one : attribute.ints) out_.integer(8, one);
    if (is(Type::strings)) texts(9, attribute.strings);
    if (is(Type::tensors))
      for (const auto& one : attribute.tensors) out_.message(10, [&] { tensor(one); });
    if (is(Type::graphs))
      for (const auto& one : attribute.graphs) out_.message(11, [&] { graph(one); });
    if (attribute.type != Type::undefined) out_.integer(20, static_cast<std::int64_t>(attribute.type));
    text(21, attribute.ref);
  }

  void tensor(const OnnxTensor& tensor) {
    const auto size = onnx_bytes(tensor.type, tensor.dims);
    CHECK(size.has_value());
    for (const std::int64_t dim : tensor.dims) out_.integer(1, dim);
    out_.integer(2, static_cast<std::int64_t>(tensor.type));
    text(8, tensor.name);
    if (!tensor.place) {
      CHECK(tensor.data.size() == *size);
      out_.bytes(9, tensor.data);
      return;
    }
    pair(13, "location", tensor.place->location);
    pair(13, "offset", std::to_string(tensor.place->offset));
    pair(13, "length", std::to_string(*size));
    out_.integer(14, 1);
  }

  void values(std::uint32_t field, const std::vector<OnnxValue>& list) {
    for (const auto& one : list) out_.message(field, [&] { value(one); });
  }

  void value(const OnnxValue& value) {
    CHECK(value.kind == OnnxKind::tensor || value.kind == OnnxKind::none);
    out_.text(1, value.name);
    if (value.kind == OnnxKind::none) return;
    out_.message(2, [&] {
      out_.message(1, [&] {
        out_.integer(1, static_cast<std::int64_t>(value.type));
        if (value.shape) out_.message(2, [&] { shape(*value.shape); });
      });
    });
  }

  void shape(const std::vector<OnnxDim>& dims) {
    for (const auto& dim : dims) {
      out_.message(1, [&] {
        if (dim.number) {
          out_.integer(1, *dim.number);
        } else {
          text(2, dim.symbol);
        }
      });
    }
  }

  void function(const OnnxFunction& function) {
    out_.text(1, function.name);
    texts(4, function.inputs);
    texts(5, function.outputs);
    texts(6, function.attributes);
    for (const auto& one : function.nodes) out_.message(7, [&] { node(one); });
    opsets(9, function.opsets);
    text(10, function.domain);
    for (const auto& one : function.defaults) out_.message(11, [&] { attribute(one); });
    values(12, function.values);
    text(13, function.overload);
  }

  ProtoWriter out_;
};

}  // namespace

Result<OnnxDataFile> OnnxDataFile::create(const std::string& path, OnnxDataOptions options) {
  const std::string name = std::filesystem::path(path).filename().string();
  if (!is_valid_utf8(name) || name.find('\\') != std::string::npos)
    return usage_error("{}: a model cannot name this file; expected a name in UTF-8 without \\", printable(path));
  TRY(AtomicFile file, AtomicFile::create(path, options.existing));
  return OnnxDataFile(std::move(file), name, options);
}

Result<OnnxTensor> OnnxDataFile::add(const std::string& name, OnnxType type, std::vector<std::int64_t> dims,
                                     const std::function<Result<void>(const Append&)>& produce) {
  CHECK(!broken_ && !name.empty());
  if (const auto known = added_.find(name); known != added_.end()) {
    CHECK(known->second.type == type && known->second.dims == dims);
    return known->second;
  }
  const auto size = onnx_bytes(type, dims);
  CHECK(size.has_value());
  broken_ = true;
  const std::uint64_t multiple = *size >= options_.large ? options_.large_alignment : options_.alignment;
  const std::uint64_t begin = (file_.written() + multiple - 1) / multiple * multiple;
  TRY_VOID(file_.skip(begin - file_.written()));
  TRY_VOID(produce([&](std::span<const std::byte> piece) { return file_.write(piece); }));
  CHECK(file_.written() == begin + *size);
  broken_ = false;
  OnnxTensor tensor{.name = name,
                    .type = type,
                    .dims = std::move(dims),
                    .place = OnnxPlace{.location = location_, .offset = begin, .length = *size}};
  added_.emplace(name, tensor);
  return tensor;
}

Result<OnnxTensor> OnnxDataFile::add(const OnnxTensor& tensor) {
  return add(tensor.name, tensor.type, tensor.dims, [&](const Append& append) { return append(tensor.data); });
}

Result<void> OnnxDataFile::commit() {
  CHECK(!broken_);
  return file_.commit();
}

Result<void> move_initializers(OnnxModel& model, OnnxDataFile& data, std::uint64_t least) {
  for (auto& tensor : model.graph.initializers) {
    if (tensor.place || tensor.data.size() < least) continue;
    TRY(tensor, data.add(tensor));
  }
  return {};
}

Result<std::string> encode_onnx(const OnnxModel& model, const std::string& path) {
  const auto too_large = [&](std::uint64_t size) {
    return unsupported(
        "{}: the model would have {} bytes in one file, protobuf ends at {}: put its weights into an "
        "external file",
        path, size, message_limit);
  };
  std::uint64_t inside = 0;  // before it is copied
  for (const auto& tensor : model.graph.initializers) inside += tensor.place ? 0 : tensor.data.size();
  if (inside > message_limit) return too_large(inside);
  Encoder encoder;
  const std::string& encoded = encoder.model(model);
  if (encoded.size() > message_limit) return too_large(encoded.size());
  return encoded;
}

Result<void> write_onnx(const std::string& path, const OnnxModel& model, Existing existing) {
  TRY(const std::string encoded, encode_onnx(model, path));
  TRY(AtomicFile file, AtomicFile::create(path, existing));
  TRY_VOID(file.write(encoded));
  return file.commit();
}

}  // namespace knapsack
