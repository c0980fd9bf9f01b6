// The graph as text, and back. One line a value or node:
//   knapsack-graph 1
//   input %ids [T, 1] I32
//   constant @embed.weight [256, 64] F32
//   constant @head.weight.T [64, 256] Q8_0 as F16 transposed
//   constant @two [] F32 = 2
//   constant @w [64, 100] F16 lines 128
//   state $layers.0.k [32]
//   state $layers.1.k [512, 32] channel_first
//   %embed [T, 64] F32 = embed %ids, @embed.weight {scale=1}
//   %layers.0.k.1 = kv_write %layers.0.k_rot, $layers.0.k
//   %x [1, 4, 16, 8] F32 = Transpose %y {perm=[0,2,1,3]} : layers.0.attn.context attention mask @npu
//   quant %x bits=8 scale=0.5 zero=3
//   output %logits
// Behind the colon: the node it was a part of with its op, its purpose unless plain, its unit.
// Names of other than letters, digits and ._-/: are quoted, with \\ \" and \xHH inside. `#` starts a comment.
#include "graph/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/shape.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

constexpr std::string_view first_line = "knapsack-graph 1";
constexpr std::string_view left_out = "# left out: ";

// Some editors mark UTF-8 at its start.
std::string_view without_mark(std::string_view text) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  return text.starts_with(mark) ? text.substr(mark.size()) : text;
}
constexpr std::size_t max_name = 256;
constexpr std::int64_t max_line = 1 << 20;

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-' || c == '/' || c == ':';
}

std::string quoted(std::string_view name) {
  bool simple = !name.empty();
  for (const char c : name) simple &= plain(c);
  if (simple) return std::string(name);
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string reference(const Value& v) {
  const char sigil = v.kind == ValueKind::constant ? '@' : v.kind == ValueKind::state ? '$' : '%';
  return fmt::format("{}{}", sigil, quoted(v.name));
}

std::string described(const Value& v) {
  if (v.state >= 0) return reference(v);
  return fmt::format("{} {} {}{}", reference(v), dims_text(v.dims), name(v.dtype), v.dynamic ? " dynamic" : "");
}

constexpr std::array<std::string_view, 3> acts = {"silu", "gelu", "gelu_tanh"};  // of ops.inc

std::optional<std::int64_t> attribute_of_word(Attr key, std::string_view word) {
  if (key == Attr::to) {
    if (const auto type = dtype_from_name(word)) return static_cast<std::int64_t>(*type);
  }
  const auto* const act = std::find(acts.begin(), acts.end(), word);
  if (key == Attr::act && act != acts.end()) return act - acts.begin();
  return std::nullopt;
}

std::string attribute_text(const Attrs::Entry& e) {
  switch (attr_kind(e.key)) {
    case AttrKind::number:
      return fmt::format("{}={}", attr_text(e.key), e.f);
    case AttrKind::integer:
      if (const auto word = attribute_word(e.key, e.i); !word.empty())
        return fmt::format("{}={}", attr_text(e.key), word);
      return fmt::format("{}={}", attr_text(e.key), e.i);
    case AttrKind::list:
      return fmt::format("{}=[{}]", attr_text(e.key), fmt::join(e.list, ","));
  }
  CHECK(false);
}

// Constants whose numbers are written: of plain types, and small.
constexpr std::int64_t max_shown = 16;
bool shown(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::I64 || dtype == DType::I32 ||
         dtype == DType::BOOL;
}

std::string numbers_text(const Weight& weight) {
  if (weight.slabs.empty() || !shown(weight.dtype) || weight.elements() > max_shown) return {};
  std::string text;
  const std::int64_t size = format(weight.dtype).block_bytes;
  for (std::int64_t i = 0; i < weight.elements(); ++i) {
    const std::byte* at = weight.slab(0) + i * size;
    text += i == 0 ? " = " : ", ";
    if (weight.dtype == DType::F32 || weight.dtype == DType::F16) {
      float value = 0;
      format(weight.dtype).decode(at, &value, 1);
      text += fmt::format("{}", value);
    } else {
      text += fmt::format("{}", weight.dtype == DType::I64   ? load_unaligned<std::int64_t>(at)
                                : weight.dtype == DType::I32 ? load_unaligned<std::int32_t>(at)
                                                             : load_unaligned<std::int8_t>(at));
    }
  }
  return text;
}

std::string node_text(const Graph& graph, const Node& node) {
  std::string text;
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    text += (i == 0 ? "" : ", ") + described(graph.value(node.outputs[i]));
  text += fmt::format(" = {}", op_info(node.op).text);
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    text += (i == 0 ? " " : ", ") + reference(graph.value(node.inputs[i]));
  std::string attrs;
  for (const Attrs::Entry& e : node.attrs.entries()) attrs += (attrs.empty() ? " {" : ", ") + attribute_text(e);
  if (!attrs.empty()) text += attrs + "}";
  if (!node.origin.empty() || !node.unit.empty()) text += " :";
  if (!node.origin.empty()) text += fmt::format(" {} {}", quoted(node.origin), op_info(node.origin_op).text);
  if (!node.origin.empty() && node.purpose != Purpose::plain) text += fmt::format(" {}", purpose_name(node.purpose));
  if (!node.unit.empty()) text += fmt::format(" @{}", quoted(node.unit));
  return text;
}

std::optional<Purpose> purpose_from_name(std::string_view name) {
  for (const Purpose purpose : {Purpose::plain, Purpose::rope_table, Purpose::mask, Purpose::kv_append,
                                Purpose::repeat_heads, Purpose::embedding, Purpose::latent_up})
    if (purpose_name(purpose) == name) return purpose;
  return std::nullopt;
}

// Reads one line. Every method fails by setting the error; the first one counts.
class Line {
 public:
  explicit Line(std::string_view text) : text_(text) {}

  [[nodiscard]] bool at_end() {
    skip_space();
    return at_ == text_.size() || text_[at_] == '#';
  }
  [[nodiscard]] bool failed() const { return !error_.empty(); }
  [[nodiscard]] const std::string& error() const { return error_; }
  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }

  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] bool at(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept_word(std::string_view expected) {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with(expected) || (rest.size() > expected.size() && plain(rest[expected.size()]))) return false;
    at_ += expected.size();
    return true;
  }
  std::string spaced_name() {
    skip_space();
    return name();
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}' at column {}", c, at_ + 1));
  }
  bool at_word() {
    skip_space();
    return at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_])) != 0;
  }
  std::string_view word() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && plain(text_[at_])) ++at_;
    if (begin == at_) fail(fmt::format("expected a word at column {}", at_ + 1));
    return text_.substr(begin, at_ - begin);
  }
  template <class T>
  T number() {
    skip_space();
    T value{};
    const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem != std::errc{}) fail(fmt::format("expected a number at column {}", at_ + 1));
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  // The name behind a sigil that was read already.
  std::string name() {
    if (at_ < text_.size() && text_[at_] == '"') return quoted_name();
    return std::string(word());
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  std::string quoted_name() {
    std::string name;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      char c = text_[at_];
      if (c == '\\') {
        if (++at_ == text_.size()) break;
        c = text_[at_];
        if (c == 'x') {
          unsigned code = 0;
          const char* begin = text_.data() + at_ + 1;
          if (text_.size() - at_ < 3 || std::from_chars(begin, begin + 2, code, 16).ptr != begin + 2) {
            fail(fmt::format("expected two hexadecimal digits at column {}", at_ + 2));
            return name;
          }
          at_ += 2;
          c = static_cast<char>(code);
        }
      }
      name += c;
    }
    if (at_ >= text_.size())
      fail("a quoted name does not end");
    else
      ++at_;
    return name;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
};

class Reader {
 public:
  Result<Graph> read(std::string_view text) {
    std::size_t begin = 0;
    bool headed = false;
    for (int number = 1; begin < text.size(); ++number) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      Line line(text.substr(begin, end - begin));
      begin = end + 1;
      if (line.at_end()) continue;
      if (!headed) {
        if (line.word() != "knapsack-graph" || line.number<int>() != 1 || line.failed())
          return bad_input("graph text, line {}: expected '{}'", number, first_line);
        headed = true;
      } else {
        statement(line);
      }
      if (!line.failed() && !line.at_end()) line.fail("expected the end of the line");
      if (line.failed()) return bad_input("graph text, line {}: {}", number, line.error());
    }
    if (!headed) return bad_input("graph text: expected '{}', found nothing", first_line);
    if (graph_.outputs().empty())
      return bad_input("graph text: expected a line 'output %NAME', found none (is the end of the text cut off?)");
    TRY_VOID(verify(graph_));
    return std::move(graph_);
  }

 private:
  void statement(Line& line) {
    if (line.accept('%')) return node(line);
    const std::string_view keyword = line.word();
    if (line.failed()) return;
    if (keyword == "input") return input(line);
    if (keyword == "constant") return constant(line);
    if (keyword == "state") return state(line);
    if (keyword == "output") return output(line);
    if (keyword == "quant") return quant(line);
    line.fail(fmt::format("expected input, constant, state, quant, output or a node, found '{}'", keyword));
  }

  std::string new_name(Line& line) {
    std::string name = line.name();
    if (name.empty() || name.size() > max_name) line.fail(fmt::format("names have 1 to {} bytes", max_name));
    if (graph_.find(name) >= 0) line.fail(fmt::format("'{}' is defined twice", name));
    return name;
  }
  DType dtype(Line& line) {
    const std::string_view word = line.word();
    const auto type = dtype_from_name(word);
    if (!line.failed() && !type) line.fail(fmt::format("'{}' is no storage format", word));
    return type.value_or(DType::F32);
  }

  std::vector<std::int64_t> dims(Line& line) {
    std::vector<std::int64_t> dims;
    line.expect('[');
    if (line.accept(']')) return dims;
    do {
      if (dims.size() == max_rank) line.fail(fmt::format("at most {} dimensions are known", max_rank));
      if (line.accept('T')) {
        dims.push_back(tokens_dim);
      } else if (line.accept('S')) {
        dims.push_back(selected_dim);
      } else {
        const auto size = line.number<std::int64_t>();
        if (size < 0) line.fail(fmt::format("a dimension of {}; expected 1 or more", size));
        dims.push_back(std::max<std::int64_t>(size, 0));  // nothing below 0 is a number here
      }
    } while (!line.failed() && line.accept(','));
    line.expect(']');
    if (line.failed()) return {};
    if (const auto fine = check_dims(dims); !fine) line.fail(fine.error().message);
    return dims;
  }

  void input(Line& line) {
    line.expect('%');
    std::string name = new_name(line);
    std::vector<std::int64_t> shape = dims(line);
    const DType type = dtype(line);
    if (!line.failed() && format(type).block != 1)
      line.fail(fmt::format("an input cannot be of {}", knapsack::name(type)));
    if (!line.failed()) graph_.input(std::move(name), type, std::move(shape));
  }

  void constant(Line& line) {
    line.expect('@');
    auto weight = std::make_shared<Weight>();
    weight->name = new_name(line);
    weight->shape = dims(line);
    for (const std::int64_t d : weight->shape)
      if (d < 1) line.fail("a constant's dimensions are numbers");
    weight->dtype = dtype(line);
    if (line.failed()) return;
    ConstantView view{.name = weight->name};
    if (line.accept_word("as")) view.as = dtype(line);
    view.transposed = line.accept_word("transposed");
    if (line.accept_word("lines")) {
      view.line = line.number<std::int64_t>();
      if (view.line < 1 || view.line > max_line) line.fail(fmt::format("lines have 1 to {} bytes", max_line));
    }
    weight->shape = seen_dims(*weight, view.transposed);
    if (auto fine = check_constant(*weight); !fine) return line.fail(fine.error().message);
    if (line.accept('=')) numbers(line, *weight);
    if (line.failed()) return;
    graph_.constant(std::move(weight), std::move(view));
  }

  // The numbers of a small constant.
  void numbers(Line& line, Weight& weight) {
    if (!shown(weight.dtype) || weight.elements() > max_shown)
      return line.fail("only small constants have numbers here");
    auto data = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(weight.bytes()));
    for (std::int64_t i = 0; i < weight.elements() && !line.failed(); ++i) {
      if (i > 0) line.expect(',');
      put(*data, i, weight.dtype, line);
    }
    weight.slabs = {data->data()};
    weight.owners = {data};
  }

  static void put(std::vector<std::byte>& data, std::int64_t i, DType dtype, Line& line) {
    const std::int64_t size = format(dtype).block_bytes;
    std::byte* at = data.data() + i * size;
    if (dtype == DType::F32) {
      const auto value = line.number<float>();
      std::memcpy(at, &value, sizeof value);
    } else if (dtype == DType::F16) {
      const std::uint16_t value = float_to_half(line.number<float>());
      std::memcpy(at, &value, sizeof value);
    } else {
      const auto value = line.number<std::int64_t>();
      if (size < 8 && (value >= std::int64_t{1} << (8 * size - 1) || value < -(std::int64_t{1} << (8 * size - 1))))
        line.fail(fmt::format("{} is no {}", value, name(dtype)));
      std::memcpy(at, &value, static_cast<std::size_t>(size));  // little-endian
    }
  }

  void state(Line& line) {
    line.expect('$');
    std::string name = new_name(line);
    const std::vector<std::int64_t> shape = dims(line);
    if (!line.failed() && (shape.empty() || shape.size() > 2 || shape[0] < 1))
      line.fail("a state is [columns] or [context, columns]");
    if (line.failed()) return;
    const bool channel_first = line.accept_word("channel_first");
    graph_.state(std::move(name), shape.back(), shape.size() == 2 ? std::optional(shape[0]) : std::nullopt,
                 channel_first);
  }

  void quant(Line& line) {
    const ValueId id = use(line);
    Quantization quant;
    const auto key = [&](std::string_view name) {
      if (line.word() != name) line.fail(fmt::format("expected {}=", name));
      line.expect('=');
    };
    key("bits");
    quant.bits = line.number<int>();
    key("scale");
    quant.scale = line.number<double>();
    key("zero");
    quant.zero = line.number<std::int64_t>();
    if (!line.failed()) graph_.set_quantization(id, quant);
  }

  ValueId use(Line& line) {
    const char sigil = line.accept('%') ? '%' : line.accept('@') ? '@' : line.accept('$') ? '$' : '\0';
    if (sigil == '\0') line.fail("expected a value (%, @ or $)");
    if (line.failed()) return -1;
    const std::string name = line.name();
    const ValueId id = graph_.find(name);
    if (id < 0) line.fail(fmt::format("'{}' is not defined above", name));
    if (id >= 0 && reference(graph_.value(id))[0] != sigil)
      line.fail(fmt::format("'{}' is written {}", name, reference(graph_.value(id))));
    return id;
  }

  void output(Line& line) {
    const ValueId id = use(line);
    if (!line.failed()) graph_.add_output(id);
  }

  std::vector<std::int64_t> list(Line& line) {
    std::vector<std::int64_t> numbers;
    line.expect('[');
    if (line.accept(']')) return numbers;
    do {
      numbers.push_back(line.number<std::int64_t>());
    } while (!line.failed() && line.accept(','));
    line.expect(']');
    return numbers;
  }

  static std::int64_t integer(Line& line, Attr key) {
    if (!line.at_word()) return line.number<std::int64_t>();
    const std::string_view word = line.word();
    const auto value = attribute_of_word(key, word);
    if (!value) line.fail(fmt::format("'{}' is no value of {}", word, attr_text(key)));
    return value.value_or(0);
  }

  Attrs attributes(Line& line) {
    Attrs attrs;
    do {
      const std::string_view word = line.word();
      const auto key = attr_from_text(word);
      if (!line.failed() && !key) line.fail(fmt::format("'{}' is no attribute", word));
      line.expect('=');
      if (line.failed()) return attrs;
      for (const Attrs::Entry& e : attrs.entries())
        if (e.key == *key) return line.fail(fmt::format("attribute {} is given twice", word)), attrs;
      if (attr_kind(*key) == AttrKind::list) {
        attrs.set(*key, list(line));
      } else if (attr_kind(*key) == AttrKind::number) {
        const auto value = line.number<double>();
        if (!line.failed() && !(value > -1e300 && value < 1e300)) line.fail("an attribute must be finite");
        if (!line.failed()) attrs.set(*key, value);
      } else {
        attrs.set(*key, integer(line, *key));
      }
    } while (!line.failed() && line.accept(','));
    line.expect('}');
    return attrs;
  }

  // The text of a result is compared with what the op makes: a reader sees shapes, and they must be true.
  std::string described_result(Line& line, std::vector<std::string>& names) {
    names.push_back(new_name(line));
    std::string text = fmt::format("%{}", quoted(names.back()));
    if (!line.at('[')) return text;
    const std::string shape = dims_text(dims(line));
    const DType type = dtype(line);
    return fmt::format("{} {} {}{}", text, shape, name(type), line.accept_word("dynamic") ? " dynamic" : "");
  }

  void node(Line& line) {
    std::vector<std::string> names, results;
    results.push_back(described_result(line, names));
    while (!line.failed() && line.accept(',')) {
      line.expect('%');
      results.push_back(described_result(line, names));
    }
    line.expect('=');
    const std::string_view word = line.word();
    const auto op = op_from_text(word);
    if (!line.failed() && !op) line.fail(fmt::format("'{}' is no op", word));
    std::vector<ValueId> inputs;
    if (line.at('%') || line.at('@') || line.at('$')) {
      do {
        inputs.push_back(use(line));
      } while (!line.failed() && line.accept(','));
    }
    Attrs attrs;
    if (line.accept('{')) attrs = attributes(line);
    const Node from = provenance(line);
    if (line.failed()) return;

    std::vector<const Value*> values;
    values.reserve(inputs.size());
    for (const ValueId id : inputs) values.push_back(&graph_.value(id));
    auto shapes = infer(*op, attrs, values);
    if (!shapes) return line.fail(shapes.error().message);
    if (shapes->size() != results.size())
      return line.fail(fmt::format("{} makes {} values, found {} names", word, shapes->size(), results.size()));
    for (std::size_t i = 0; i < results.size(); ++i) {
      Value& shape = (*shapes)[i];
      shape.name = names[i];
      if (results[i] != described(shape))
        return line.fail(fmt::format("{} makes {}, found {}", word, described(shape), results[i]));
    }
    graph_.nodes(*op, std::move(names), std::move(inputs), std::move(attrs));
    graph_.last().origin = from.origin;
    graph_.last().origin_op = from.origin_op;
    graph_.last().purpose = from.purpose;
    graph_.last().unit = from.unit;
  }

  // Behind the colon.
  Node provenance(Line& line) {
    Node node;
    if (!line.accept(':')) return node;
    if (!line.at('@')) {
      node.origin = line.spaced_name();
      const std::string_view word = line.word();
      const auto op = op_from_text(word);
      if (!line.failed() && !op) line.fail(fmt::format("'{}' is no op", word));
      node.origin_op = op.value_or(Op{});
    }
    if (!line.at_end() && !line.at('@')) {
      const std::string_view word = line.word();
      const auto purpose = purpose_from_name(word);
      if (!line.failed() && !purpose) line.fail(fmt::format("'{}' is no purpose", word));
      node.purpose = purpose.value_or(Purpose::plain);
    }
    if (line.accept('@')) node.unit = line.name();
    return node;
  }

  Graph graph_;
};

}  // namespace

std::string_view attribute_word(Attr key, std::int64_t value) {
  if (value < 0) return "";
  const auto at = static_cast<std::size_t>(value);
  if (key == Attr::to && at < all_formats().size()) return all_formats()[at].name;
  if (key == Attr::act && at < acts.size()) return acts[at];
  return "";
}

std::string to_text(const Graph& graph) { return to_text(graph, nullptr); }

std::string to_text(const Graph& graph, const std::function<bool(const Node&)>& keep) {
  const auto kept = [&](const Node& node) { return !keep || keep(node); };
  std::vector<char> read(graph.values().size(), keep ? 0 : 1), known(graph.values().size(), 0);
  for (const Node& node : graph.list())
    if (kept(node))
      for (const ValueId input : node.inputs) read[static_cast<std::size_t>(input)] = 1;
  std::string text = fmt::format("{}\n", first_line);
  for (std::size_t id = 0; id < read.size(); ++id) {
    const Value& v = graph.values()[id];
    known[id] = v.kind == ValueKind::computed ? 0 : 1;
    if (read[id] == 0) continue;
    if (v.kind == ValueKind::input) text += fmt::format("input {}\n", described(v));
    if (v.kind == ValueKind::state)
      text += fmt::format("state {} {}{}\n", reference(v), dims_text(v.dims), v.channel_first ? " channel_first" : "");
    if (v.kind != ValueKind::constant) continue;
    text += fmt::format("constant {} {} {}", reference(v), dims_text(v.dims), name(v.dtype));
    if (v.as) text += fmt::format(" as {}", name(*v.as));
    if (v.transposed) text += " transposed";
    if (v.line > 0) text += fmt::format(" lines {}", v.line);
    text += fmt::format("{}\n", numbers_text(*v.weight));
  }
  for (const Node& node : graph.list()) {
    if (!kept(node)) continue;
    for (const ValueId input : node.inputs)
      if (char& there = known[static_cast<std::size_t>(input)]; there == 0) {
        text += fmt::format("{}{}\n", left_out, described(graph.value(input)));
        there = 1;
      }
    for (const ValueId output : node.outputs) known[static_cast<std::size_t>(output)] = 1;
    text += node_text(graph, node) + "\n";
  }
  for (std::size_t id = 0; id < known.size(); ++id)
    if (const Value& v = graph.values()[id]; v.quant && known[id] != 0)
      text += fmt::format("quant {} bits={} scale={} zero={}\n", reference(v), v.quant->bits, v.quant->scale,
                          v.quant->zero);
  for (const ValueId id : graph.outputs())
    if (known[static_cast<std::size_t>(id)] != 0) text += fmt::format("output {}\n", reference(graph.value(id)));
  return text;
}

bool begins_as_graph_text(std::string_view start) {
  return without_mark(start).starts_with(first_line.substr(0, first_line.find(' ') + 1));
}

Result<Graph> graph_from_text(std::string_view text) {
  auto graph = Reader().read(without_mark(text));
  if (graph || text.find(left_out) == std::string_view::npos) return graph;
  return bad_input(
      "graph text: this is a part of a graph, whose other layers it leaves out, and cannot be read back; "
      "write the whole graph (no --layers)");
}

}  // namespace knapsack
