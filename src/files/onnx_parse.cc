#include "files/onnx_parse.h"

#include <bit>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "files/onnx_tensor_parse.h"
#include "files/protobuf.h"
#include "files/sniff.h"

namespace knapsack {
namespace {

constexpr std::int64_t newest_ir = 14;
constexpr int most_nested = 16;  // graphs within graphs; real models have 3

class Parser : OnnxTensorParser {
 public:
  using OnnxTensorParser::OnnxTensorParser;

  Result<OnnxModel> parse() {
    if (!looks_like_onnx(bytes_)) {
      if (const auto guess = guess_content(bytes_); !guess.empty())
        return bad_input("{}: not an ONNX model; it seems to be {}", path_, guess);
    }
    OnnxModel model;
    bool has_graph = false;
    const auto on_field = [&](const ProtoField& field) -> Result<void> {
      switch (field.number) {
        case 1:
          return integer(field, "ir_version", model.ir_version);
        case 2:
          return text(field, "producer_name", model.producer);
        case 3:
          return text(field, "producer_version", model.producer_version);
        case 7: {
          if (has_graph) return fault(field, "a second graph of the model; expected one");
          has_graph = true;
          TRY(const OnnxMessage message, nested(field, "the graph"));
          TRY(model.graph, graph(message, 0));
          return {};
        }
        case 8:
          return opset(field, model.opsets);
        case 14: {
          std::pair<std::string, std::string> entry;
          TRY_VOID(string_pair(field, entry));
          return append(model.metadata, std::move(entry));
        }
        case 25: {
          TRY(const OnnxMessage message, nested(field, "a function"));
          TRY(OnnxFunction made, function(message));
          return append(model.functions, std::move(made));
        }
        default:
          return {};
      }
    };
    TRY_VOID(each_field({bytes_, "the model"}, on_field));
    if (!has_graph)
      return bad_input("{}: expected an ONNX model, found none: {} bytes without a graph (a file of another kind?)",
                       path_, bytes_.size());
    if (model.ir_version < 1)
      return bad_input("{}: the model's ir_version is {}; expected 1 to {}", path_, model.ir_version, newest_ir);
    if (model.ir_version > newest_ir)
      return unsupported("{}: the model has IR version {}; versions up to {} are read: export it with an older opset",
                         path_, model.ir_version, newest_ir);
    if (model.opsets.empty() && model.ir_version >= 3)
      return bad_input("{}: the model names no operator set (opset_import); export it again", path_);
    return model;
  }

 private:
  // The standard's operators have two names for their domain.
  Result<void> domain(const ProtoField& field, std::string& out) {
    TRY_VOID(text(field, "a domain", out));
    if (out == "ai.onnx") out.clear();
    return {};
  }

  Result<void> opset(const ProtoField& field, OnnxOpsets& opsets) {
    TRY(const OnnxMessage message, nested(field, "an opset_import"));
    std::string name;
    std::int64_t version = 0;
    const auto on_part = [&](const ProtoField& part) -> Result<void> {
      if (part.number == 1) return domain(part, name);
      if (part.number == 2) return integer(part, "the version of an operator set", version);
      return {};
    };
    TRY_VOID(each_field(message, on_part));
    TRY_VOID(take(sizeof(OnnxOpsets::value_type)));
    const auto [entry, fresh] = opsets.emplace(name, version);
    if (!fresh && entry->second != version)
      return bad_input("{}: byte {}: operator set {} is imported as version {} and as version {}", path_, field.at,
                       printable(name), entry->second, version);
    return {};
  }

  Result<OnnxGraph> graph(const OnnxMessage& message, int depth) {
    if (depth > most_nested)
      return unsupported("{}: byte {}: graphs within graphs more than {} deep", path_, offset_of(message.bytes),
                         most_nested);
    OnnxGraph made;
    const auto on_field = [&](const ProtoField& field) -> Result<void> {
      switch (field.number) {
        case 1: {
          TRY(const OnnxMessage part, nested(field, "a node"));
          TRY(OnnxNode one, node(part, depth));
          return append(made.nodes, std::move(one));
        }
        case 2:
          return text(field, "the name of a graph", made.name);
        case 5: {
          TRY(const OnnxMessage part, nested(field, "an initializer"));
          TRY(OnnxTensor one, tensor(part));
          if (one.name.empty()) return fault(field, "an initializer without a name");
          return append(made.initializers, std::move(one));
        }
        case 11:
          return value(field, "an input of a graph", made.inputs);
        case 12:
          return value(field, "an output of a graph", made.outputs);
        case 13:
          return value(field, "a value_info", made.values);
        case 15:
          return sparse(field, made.sparse_initializers);
        default:
          return {};
      }
    };
    TRY_VOID(each_field(message, on_field));
    TRY_VOID(unique(made.initializers, "initializers"));
    TRY_VOID(unique(made.inputs, "inputs"));
    return made;
  }

  template <class T>
  Result<void> unique(const std::vector<T>& list, std::string_view what) {
    TRY_VOID(take(4 * sizeof(std::string_view) * list.size()));
    std::unordered_set<std::string_view> seen;
    for (const auto& item : list) {
      if (!seen.insert(item.name).second)
        return bad_input("{}: two {} of a graph have the name {}", path_, what, printable(item.name));
    }
    return {};
  }

  // Only the name, which is that of the tensor of values.
  Result<void> sparse(const ProtoField& field, std::vector<std::string>& names) {
    TRY(const OnnxMessage message, nested(field, "a sparse initializer"));
    std::string name;
    const auto on_part = [&](const ProtoField& part) -> Result<void> {
      if (part.number != 1) return {};
      TRY(const OnnxMessage values, nested(part, "the values of a sparse initializer"));
      return each_field(values, [&](const ProtoField& inner) -> Result<void> {
        return inner.number == 8 ? text(inner, "the name of a sparse initializer", name) : Result<void>();
      });
    };
    TRY_VOID(each_field(message, on_part));
    return append(names, std::move(name));
  }

  Result<OnnxNode> node(const OnnxMessage& message, int depth) {
    OnnxNode made;
    const auto on_field = [&](const ProtoField& field) -> Result<void> {
      switch (field.number) {
        case 1:
          return texts(field, "an input of a node", made.inputs);
        case 2:
          return texts(field, "an output of a node", made.outputs);
        case 3:
          return text(field, "the name of a node", made.name);
        case 4:
          return text(field, "the operator of a node", made.op_type);
        case 5:
          return attribute(field, made.attributes, depth);
        case 7:
          return domain(field, made.domain);
        case 8:
          return text(field, "the overload of a node", made.overload);
        default:
          return {};
      }
    };
    TRY_VOID(each_field(message, on_field));
    if (made.op_type.empty())
      return bad_input("{}: byte {}: node {} has no operator (op_type)", path_, offset_of(message.bytes),
                       printable(made.name));
    return made;
  }

  Result<void> attribute(const ProtoField& field, std::vector<OnnxAttribute>& attributes, int depth) {
    TRY(const OnnxMessage message, nested(field, "an attribute"));
    OnnxAttribute made;
    std::int64_t type = 0;
    std::uint32_t given = 0;  // a bit for each type of value that stands there
    const auto is = [&](OnnxAttributeType kind) { given |= 1U << static_cast<unsigned>(kind); };
    using Type = OnnxAttributeType;
    const auto on_part = [&](const ProtoField& part) -> Result<void> {
      switch (part.number) {
        case 1:
          return text(part, "the name of an attribute", made.name);
        case 2:
          is(Type::f);
          TRY_VOID(expect(part, "a float attribute", ProtoWire::fixed32));
          made.f = std::bit_cast<float>(static_cast<std::uint32_t>(part.value));
          return {};
        case 3:
          is(Type::i);
          return integer(part, "an integer attribute", made.i);
        case 4:
          is(Type::s);
          return bytes(part, "a string attribute", made.s);
        case 5:
        case 10: {
          is(part.number == 5 ? Type::tensor : Type::tensors);
          TRY(const OnnxMessage within, nested(part, "a tensor of an attribute"));
          TRY(OnnxTensor one, tensor(within));
          return append(made.tensors, std::move(one));
        }
        case 6:
        case 11: {
          is(part.number == 6 ? Type::graph : Type::graphs);
          TRY(const OnnxMessage within, nested(part, "a graph of an attribute"));
          TRY(OnnxGraph one, graph(within, depth + 1));
          return append(made.graphs, std::move(one));
        }
        case 7:
          is(Type::floats);
          return floats(part, "a list of floats of an attribute", made.floats);
        case 8:
          is(Type::ints);
          return integers(part, "a list of integers of an attribute", made.ints);
        case 9: {
          is(Type::strings);
          std::string item;
          TRY_VOID(bytes(part, "a list of strings of an attribute", item));
          return append(made.strings, std::move(item));
        }
        case 14:
          is(Type::type_proto);
          return {};
        case 15:
          is(Type::type_protos);
          return {};
        case 20:
          return integer(part, "the type of an attribute", type);
        case 21:
          return text(part, "the reference of an attribute", made.ref);
        case 22:
          is(Type::sparse_tensor);
          return {};
        case 23:
          is(Type::sparse_tensors);
          return {};
        default:
          return {};
      }
    };
    TRY_VOID(each_field(message, on_part));
    const std::string what = fmt::format("attribute {}", printable(made.name));
    if (made.name.empty()) return fault(field, "an attribute without a name");
    if (type < 0 || type > static_cast<std::int64_t>(Type::type_protos))
      return fault(field, fmt::format("{} has the unknown type {}", what, type));
    made.type = static_cast<Type>(type);
    if (type == 0) {  // IR version 1 has no types: the value tells
      for (unsigned kind = 1; kind <= static_cast<unsigned>(Type::type_protos); ++kind)
        if (given == 1U << kind) made.type = static_cast<Type>(kind);
      if (made.type == Type::undefined && made.ref.empty())
        return fault(field, fmt::format("{} has no type, and not one value that would tell it", what));
    }
    if ((given & ~(1U << static_cast<unsigned>(made.type))) != 0)
      return fault(field, fmt::format("{} is of type {}, but a value of another type stands there", what,
                                      onnx_attribute_type_name(made.type)));
    // Numbers and lists may be left out where they are zero or empty, tensors and graphs may not.
    if (made.ref.empty() && ((made.type == Type::tensor && made.tensors.size() != 1) ||
                             (made.type == Type::graph && made.graphs.size() != 1)))
      return fault(field, fmt::format("{} is of type {}; expected one, found {}", what,
                                      onnx_attribute_type_name(made.type), made.tensors.size() + made.graphs.size()));
    return append(attributes, std::move(made));
  }

  Result<void> value(const ProtoField& field, std::string_view what, std::vector<OnnxValue>& values) {
    TRY(const OnnxMessage message, nested(field, what));
    OnnxValue made{.name = "", .kind = OnnxKind::none};
    const auto on_part = [&](const ProtoField& part) -> Result<void> {
      if (part.number == 1) return text(part, "the name of a value", made.name);
      if (part.number != 2) return {};
      TRY(const OnnxMessage within, nested(part, "the type of a value"));
      return value_type(within, made);
    };
    TRY_VOID(each_field(message, on_part));
    if (made.name.empty()) return fault(field, fmt::format("{} without a name", what));
    return append(values, std::move(made));
  }

  Result<void> value_type(const OnnxMessage& message, OnnxValue& made) {
    return each_field(message, [&](const ProtoField& field) -> Result<void> {
      switch (field.number) {
        case 1: {
          made.kind = OnnxKind::tensor;
          TRY(const OnnxMessage within, nested(field, "the type of a tensor"));
          return tensor_type(within, made);
        }
        case 4:
          made.kind = OnnxKind::sequence;
          return {};
        case 5:
          made.kind = OnnxKind::map;
          return {};
        case 7:
          made.kind = OnnxKind::opaque;
          return {};
        case 8:
          made.kind = OnnxKind::sparse_tensor;
          return {};
        case 9:
          made.kind = OnnxKind::optional;
          return {};
        default:
          return {};
      }
    });
  }

  Result<void> tensor_type(const OnnxMessage& message, OnnxValue& made) {
    return each_field(message, [&](const ProtoField& field) -> Result<void> {
      if (field.number == 1) return element_type(field, made.type);
      if (field.number != 2) return {};
      TRY(const OnnxMessage within, nested(field, "the shape of a value"));
      made.shape.emplace();
      return each_field(within, [&](const ProtoField& part) -> Result<void> {
        if (part.number != 1) return {};
        TRY(OnnxDim dim, dimension(part));
        if (made.shape->size() == onnx_most_dims)
          return fault(part, fmt::format("value {} has more than {} dimensions", printable(made.name), onnx_most_dims));
        return append(*made.shape, std::move(dim));
      });
    });
  }

  // Some exporters write -1 for what is not known.
  Result<OnnxDim> dimension(const ProtoField& field) {
    TRY(const OnnxMessage message, nested(field, "a dimension"));
    OnnxDim made;
    std::int64_t number = -1;
    const auto on_part = [&](const ProtoField& part) -> Result<void> {
      if (part.number == 1) return integer(part, "a dimension", number);
      if (part.number == 2) return text(part, "the name of a dimension", made.symbol);
      return {};
    };
    TRY_VOID(each_field(message, on_part));
    if (number < -1) return fault(field, fmt::format("a dimension is {}; expected at least 0", number));
    if (number >= 0) {
      if (!made.symbol.empty())
        return fault(field, fmt::format("a dimension is {} and {} at once", number, printable(made.symbol)));
      made.number = number;
    }
    return made;
  }

  Result<OnnxFunction> function(const OnnxMessage& message) {
    OnnxFunction made;
    const auto on_field = [&](const ProtoField& field) -> Result<void> {
      switch (field.number) {
        case 1:
          return text(field, "the name of a function", made.name);
        case 4:
          return texts(field, "an input of a function", made.inputs);
        case 5:
          return texts(field, "an output of a function", made.outputs);
        case 6:
          return texts(field, "an attribute of a function", made.attributes);
        case 7: {
          TRY(const OnnxMessage part, nested(field, "a node"));
          TRY(OnnxNode one, node(part, 0));
          return append(made.nodes, std::move(one));
        }
        case 9:
          return opset(field, made.opsets);
        case 10:
          return domain(field, made.domain);
        case 11:
          return attribute(field, made.defaults, 0);
        case 12:
          return value(field, "a value_info", made.values);
        case 13:
          return text(field, "the overload of a function", made.overload);
        default:
          return {};
      }
    };
    TRY_VOID(each_field(message, on_field));
    if (made.name.empty()) return bad_input("{}: byte {}: a function without a name", path_, offset_of(message.bytes));
    return made;
  }
};

// Whether a message is made of such fields alone, as far as it goes; at most so many are looked at.
template <class Known>
bool made_of(std::span<const std::byte> bytes, bool cut, const Known& known) {
  constexpr int most_looked_at = 64;
  const std::string nowhere;
  ProtoReader reader(bytes, 0, nowhere, "");
  for (int i = 0; i < most_looked_at; ++i) {
    const auto field = reader.next();
    if (!field) return cut && i > 0;
    if (!*field) return i > 0;
    if (!known(**field)) return false;
  }
  return true;
}

bool is_graph(std::span<const std::byte> bytes, bool cut) {
  return made_of(bytes, cut, [](const ProtoField& field) {
    return field.wire == ProtoWire::bytes &&
           (field.number == 1 || field.number == 2 || field.number == 5 || (field.number >= 10 && field.number <= 16));
  });
}

}  // namespace

Result<OnnxModel> parse_onnx(std::span<const std::byte> bytes, const std::string& path,
                             const std::shared_ptr<const void>& owner, std::uint64_t memory_limit) {
  return Parser(bytes, path, owner, memory_limit).parse();
}

bool looks_like_onnx(std::span<const std::byte> bytes) {
  constexpr std::uint64_t most_ir = 100;
  constexpr int most_looked_at = 1 << 16;
  bool version = false, graph = false;
  const auto known = [&](const ProtoField& field) {
    switch (field.number) {
      case 1:
        version = field.value >= 1 && field.value <= most_ir;
        return version && field.wire == ProtoWire::varint;
      case 5:
        return field.wire == ProtoWire::varint;
      case 7:
        graph = field.wire == ProtoWire::bytes && is_graph(field.bytes, false);
        return graph;
      case 2:
      case 3:
      case 4:
      case 6:
      case 8:
      case 14:
      case 20:
      case 25:
      case 26:
        return field.wire == ProtoWire::bytes;
      default:
        return false;
    }
  };
  const std::string nowhere;
  std::size_t at = 0;
  for (int i = 0; i < most_looked_at && at < bytes.size(); ++i) {
    const auto rest = bytes.subspan(at);
    ProtoReader reader(rest, 0, nowhere, "");
    const auto field = reader.next();
    if (!field) {  // cut: within the graph, or it is something else
      std::size_t inside = 0;
      const auto tag = read_varint(rest, inside);
      const auto length = read_varint(rest, inside);
      return version && tag == (7U << 3 | 2U) && length && is_graph(rest.subspan(inside), true);
    }
    if (!*field || !known(**field)) return false;
    at += reader.position();
  }
  return version && graph;
}

}  // namespace knapsack
