// The graph as text, and back. One line a value or node:
//   knapsack-graph 1
//   input %ids [T, 1] I32
//   constant @embed.weight [256, 64] F32
//   state $layers.0.k [32]
//   %embed [T, 64] F32 = embed %ids, @embed.weight {scale=1}
//   %layers.0.k.1 = kv_write %layers.0.k_rot, $layers.0.k
//   output %logits
// Names of other than letters, digits and ._-/: are quoted, with \\ \" and \xHH inside. `#` starts a comment.
#include <cctype>
#include <charconv>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/shape.h"

namespace knapsack {
namespace {

constexpr std::string_view first_line = "knapsack-graph 1";
constexpr std::size_t max_name = 256;

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
  return fmt::format("{} [{}, {}] {}", reference(v), v.rows == Rows::tokens ? 'T' : 'S', v.cols, name(v.dtype));
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
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}' at column {}", c, at_ + 1));
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
    line.fail(fmt::format("expected input, constant, state, output or a node, found '{}'", keyword));
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

  void input(Line& line) {
    line.expect('%');
    std::string name = new_name(line);
    line.expect('[');
    if (line.word() != "T") line.fail("an input has T rows");
    line.expect(',');
    const auto cols = line.number<std::int64_t>();
    line.expect(']');
    const DType type = dtype(line);
    if (cols != 1 || type != DType::I32) line.fail("the one input is the token ids, I32 [T, 1]");
    if (!line.failed()) graph_.input(std::move(name), type, cols);
  }

  void constant(Line& line) {
    line.expect('@');
    auto weight = std::make_shared<Weight>();
    weight->name = new_name(line);
    line.expect('[');
    do {
      weight->shape.push_back(line.number<std::int64_t>());
    } while (!line.failed() && line.accept(','));
    line.expect(']');
    weight->dtype = dtype(line);
    if (line.failed()) return;
    if (auto fine = check_constant(*weight); !fine) return line.fail(fine.error().message);
    graph_.constant(std::move(weight));
  }

  void state(Line& line) {
    line.expect('$');
    std::string name = new_name(line);
    line.expect('[');
    const auto cols = line.number<std::int64_t>();
    line.expect(']');
    if (cols < 1 || cols >= std::int64_t{1} << 31) line.fail("a state has at least one column");
    if (!line.failed()) graph_.state(std::move(name), cols);
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
    if (graph_.output() >= 0) line.fail("there is one output");
    const ValueId id = use(line);
    if (!line.failed()) graph_.set_output(id);
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
      if (attr_is_float(*key)) {
        const auto value = line.number<double>();
        if (!line.failed() && !(value > -1e300 && value < 1e300)) line.fail("an attribute must be finite");
        if (!line.failed()) attrs.set(*key, value);
      } else {
        attrs.set(*key, line.number<std::int64_t>());
      }
    } while (!line.failed() && line.accept(','));
    line.expect('}');
    return attrs;
  }

  // The text of a result is compared with what the op makes: a reader sees shapes, and they must be true.
  std::string described_result(Line& line, std::vector<std::string>& names) {
    names.push_back(new_name(line));
    std::string text = fmt::format("%{}", quoted(names.back()));
    if (!line.accept('[')) return text;
    const std::string_view rows = line.word();
    line.expect(',');
    const auto cols = line.number<std::int64_t>();
    line.expect(']');
    return fmt::format("{} [{}, {}] {}", text, rows, cols, name(dtype(line)));
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
    do {
      inputs.push_back(use(line));
    } while (!line.failed() && line.accept(','));
    Attrs attrs;
    if (line.accept('{')) attrs = attributes(line);
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
      shape.name = i == 0 ? names[0] : fmt::format("{}.{}", names[0], i);
      if (results[i] != described(shape))
        return line.fail(fmt::format("{} makes {}, found {}", word, described(shape), results[i]));
    }
    graph_.nodes(*op, names[0], std::move(inputs), std::move(attrs));
  }

  Graph graph_;
};

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text = fmt::format("{}\n", first_line);
  for (const Value& v : graph.values()) {
    if (v.kind == ValueKind::input) text += fmt::format("input {}\n", described(v));
    if (v.kind == ValueKind::state) text += fmt::format("state {} [{}]\n", reference(v), v.cols);
    if (v.kind != ValueKind::constant) continue;
    text += fmt::format("constant {} [", reference(v));
    for (std::size_t i = 0; i < v.weight->shape.size(); ++i)
      text += fmt::format("{}{}", i == 0 ? "" : ", ", v.weight->shape[i]);
    text += fmt::format("] {}\n", name(v.dtype));
  }
  for (const Node& node : graph.list()) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      text += (i == 0 ? "" : ", ") + described(graph.value(node.outputs[i]));
    text += fmt::format(" = {}", op_info(node.op).text);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      text += (i == 0 ? " " : ", ") + reference(graph.value(node.inputs[i]));
    std::string attrs;
    for (const Attrs::Entry& e : node.attrs.entries()) {
      attrs += attrs.empty() ? " {" : ", ";
      attrs += attr_is_float(e.key) ? fmt::format("{}={}", attr_text(e.key), e.f)
                                    : fmt::format("{}={}", attr_text(e.key), e.i);
    }
    text += attrs.empty() ? "\n" : attrs + "}\n";
  }
  if (graph.output() >= 0) text += fmt::format("output {}\n", reference(graph.value(graph.output())));
  return text;
}

Result<Graph> graph_from_text(std::string_view text) { return Reader().read(text); }

}  // namespace knapsack
