#include "base/json.h"

#include <boost/json/basic_parser_impl.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/read_file.h"
#include "base/utf8.h"

namespace knapsack {
namespace {

constexpr std::size_t depth_limit = 64;

// Builds the value itself rather than through boost's value_stack, which lets the last of two equal keys win.
class Builder {
 public:
  static constexpr std::size_t max_object_size = SIZE_MAX;
  static constexpr std::size_t max_array_size = SIZE_MAX;
  static constexpr std::size_t max_key_size = std::size_t{1} << 20;
  static constexpr std::size_t max_string_size = json::string::max_size();

  json::value result;
  std::string duplicate;  // the key seen twice, where that was the error
  bool repeated = false;

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return open(json::object()); }
  bool on_object_end(std::size_t, json::error_code&) { return close(); }
  bool on_array_begin(json::error_code&) { return open(json::array()); }
  bool on_array_end(std::size_t, json::error_code&) { return close(); }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code& code) {
    text_.append(part.data(), part.size());
    Frame& top = stack_.back();
    if (top.value.get_object().contains(text_)) {
      repeated = true;
      duplicate = std::move(text_);
      code = json::error::syntax;
      return false;
    }
    top.key = std::exchange(text_, {});
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t, json::error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_string(json::string_view part, std::size_t, json::error_code&) {
    text_.append(part.data(), part.size());
    const bool more = add(json::value(json::string(text_)));
    text_.clear();
    return more;
  }
  bool on_number_part(json::string_view part, json::error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_int64(std::int64_t number, json::string_view, json::error_code&) {
    text_.clear();
    return add(json::value(number));
  }
  bool on_uint64(std::uint64_t number, json::string_view, json::error_code&) {
    text_.clear();
    return add(json::value(number));
  }
  bool on_double(double number, json::string_view part, json::error_code&) {
    // boost 1.81's own conversion may be off by an ulp; from_chars rounds correctly. Where it reports out of range,
    // boost's infinity or zero stands.
    text_.append(part.data(), part.size());
    double exact = 0;
    if (std::from_chars(text_.data(), text_.data() + text_.size(), exact).ec == std::errc()) number = exact;
    text_.clear();
    return add(json::value(number));
  }
  bool on_bool(bool value, json::error_code&) { return add(json::value(value)); }
  bool on_null(json::error_code&) { return add(json::value(nullptr)); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  struct Frame {
    json::value value;
    std::string key;
  };

  bool open(json::value container) {
    stack_.push_back({std::move(container), {}});
    return true;
  }
  bool close() {
    json::value done = std::move(stack_.back().value);
    stack_.pop_back();
    return add(std::move(done));
  }
  bool add(json::value value) {
    if (stack_.empty()) {
      result = std::move(value);
    } else if (auto* array = stack_.back().value.if_array()) {
      array->push_back(std::move(value));
    } else {
      stack_.back().value.get_object().emplace(stack_.back().key, std::move(value));
    }
    return true;
  }

  std::vector<Frame> stack_;
  std::string text_;
};

// Python's json writes Infinity and -Infinity, which JSON does not have. They become 1e999999, a number of the same
// length that reads as infinity, so that byte offsets stay true. Only what stands outside strings is touched.
std::string replace_infinities(std::string_view text) {
  static constexpr std::string_view infinity = "Infinity", number = "1e999999";
  std::string out(text);
  bool inside = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == '"') {
      inside = !inside;
    } else if (inside && out[i] == '\\') {
      ++i;
    } else if (!inside && out[i] == 'I' && text.substr(i, infinity.size()) == infinity) {
      out.replace(i, infinity.size(), number);
      i += infinity.size() - 1;
    }
  }
  return out;
}

std::string_view what_went_wrong(const json::error_code& code, std::string_view rest) {
  if (rest.starts_with("NaN")) return "NaN, which JSON does not have (write a number or null)";
  if (code == json::error::incomplete) return "the text ends too early";
  if (code == json::error::too_deep) return "nested deeper than 64 levels";
  if (code == json::error::extra_data) return "unexpected text after the value";
  return {};
}

}  // namespace

Result<json::value> parse_json(std::string_view text, const std::string& origin) {
  std::size_t skipped = 0;
  if (text.starts_with("\xef\xbb\xbf")) {
    skipped = 3;
    text.remove_prefix(skipped);
  }
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return bad_input("{}: not JSON: UTF-16 text; expected UTF-8", origin);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return bad_input("{}: not JSON: no value in {} bytes", origin, text.size() + skipped);

  std::string replaced;
  if (text.find("Infinity") != std::string_view::npos) {
    replaced = replace_infinities(text);
    text = replaced;
  }
  json::parse_options options;
  options.max_depth = depth_limit;
  json::basic_parser<Builder> parser(options);
  json::error_code code;
  std::size_t used = parser.write_some(false, text.data(), text.size(), code);
  if (!code && used < text.size()) {
    used += std::min(text.substr(used).find_first_not_of(" \t\r\n"), text.size() - used);
    if (used < text.size()) code = json::error::extra_data;
  }
  if (!code) return std::move(parser.handler().result);
  if (parser.handler().repeated)
    return bad_input("{}: duplicate key {} before byte {}", origin, printable(parser.handler().duplicate),
                     used + skipped);
  const auto rest = text.substr(used);
  auto reason = std::string(what_went_wrong(code, rest));
  if (reason.empty()) reason = code.message();
  const auto near = rest.empty() ? std::string() : ", near " + printable(rest.substr(0, 16));
  return bad_input("{}: not JSON: {} at byte {}{}", origin, reason, used + skipped, near);
}

Result<json::object> parse_json_object(std::string_view text, const std::string& origin) {
  TRY(json::value value, parse_json(text, origin));
  if (!value.is_object()) return bad_input("{}: expected an object {{...}}, found {}", origin, json_kind(value));
  return std::move(value.get_object());
}

Result<std::string> read_text_file(const std::string& path, std::size_t limit) {
  TRY(const RegularFile file, open_regular(path));
  if (file.size > limit) return bad_input("{}: {} bytes; a text file here has at most {}", path, file.size, limit);
  return read_to_end(file.descriptor.get(), path, limit, file.size);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

std::string_view json_kind(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a fractional number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "a value";
}

namespace {

// What was found, shown where it is short.
std::string found(const json::value& value) {
  if (value.is_string()) return "the string " + printable(std::string_view(value.get_string()), 40);
  if (value.is_double()) return fmt::format("{}", value.get_double());
  if (value.is_primitive()) return json::serialize(value);
  return std::string(json_kind(value));
}

Error wrong_type(const std::string& origin, std::string_view key, std::string_view expected, const json::value& value) {
  return bad_input("{}: {} must be {}, found {}", origin, printable(key), expected, found(value));
}

Error missing(const std::string& origin, std::string_view key, std::string_view expected) {
  return bad_input("{}: {} is missing (expected {})", origin, printable(key), expected);
}

// Null for absent and for null.
const json::value* given(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

template <class T>
Result<T> required(Result<std::optional<T>> value, std::string_view key, const std::string& origin,
                   std::string_view expected) {
  if (!value) return std::move(value).error();
  if (!*value) return missing(origin, key, expected);
  return std::move(**value);
}

}  // namespace

Result<std::optional<std::int64_t>> json_int_if(const json::object& object, std::string_view key,
                                                const std::string& origin, std::int64_t min, std::int64_t max) {
  const json::value* value = given(object, key);
  if (value == nullptr) return std::optional<std::int64_t>();
  std::optional<std::int64_t> number;
  if (value->is_int64()) {
    number = value->get_int64();
  } else if (value->is_double()) {
    const double d = value->get_double();
    if (d == std::floor(d) && std::abs(d) <= 0x1p53) number = static_cast<std::int64_t>(d);
  }
  // An unsigned value here is above the largest signed one, thus out of any range we know.
  if (!number && !value->is_uint64() && !value->is_double()) return wrong_type(origin, key, "an integer", *value);
  if (!number || *number < min || *number > max) {
    if (min == INT64_MIN && max == INT64_MAX) return wrong_type(origin, key, "a 64-bit integer", *value);
    return wrong_type(origin, key, fmt::format("an integer from {} to {}", min, max), *value);
  }
  return number;
}

Result<std::optional<double>> json_number_if(const json::object& object, std::string_view key,
                                             const std::string& origin, double min, double max) {
  const json::value* value = given(object, key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return wrong_type(origin, key, "a number", *value);
  const auto number = value->to_number<double>();
  if (!std::isfinite(number) || number < min || number > max)
    return wrong_type(origin, key, fmt::format("a number from {} to {}", min, max), *value);
  return std::optional(number);
}

Result<std::optional<bool>> json_bool_if(const json::object& object, std::string_view key, const std::string& origin) {
  const json::value* value = given(object, key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_bool()) return wrong_type(origin, key, "true or false", *value);
  return std::optional(value->get_bool());
}

Result<std::optional<std::string>> json_string_if(const json::object& object, std::string_view key,
                                                  const std::string& origin) {
  const json::value* value = given(object, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_type(origin, key, "a string", *value);
  return std::optional(std::string(value->get_string()));
}

Result<const json::object*> json_object_if(const json::object& object, std::string_view key,
                                           const std::string& origin) {
  const json::value* value = given(object, key);
  if (value != nullptr && !value->is_object()) return wrong_type(origin, key, "an object", *value);
  return value == nullptr ? nullptr : value->if_object();
}

Result<const json::array*> json_array_if(const json::object& object, std::string_view key, const std::string& origin) {
  const json::value* value = given(object, key);
  if (value != nullptr && !value->is_array()) return wrong_type(origin, key, "an array", *value);
  return value == nullptr ? nullptr : value->if_array();
}

Result<std::int64_t> json_int(const json::object& object, std::string_view key, const std::string& origin,
                              std::int64_t min, std::int64_t max) {
  return required(json_int_if(object, key, origin, min, max), key, origin, "an integer");
}

Result<double> json_number(const json::object& object, std::string_view key, const std::string& origin, double min,
                           double max) {
  return required(json_number_if(object, key, origin, min, max), key, origin, "a number");
}

Result<bool> json_bool(const json::object& object, std::string_view key, const std::string& origin) {
  return required(json_bool_if(object, key, origin), key, origin, "true or false");
}

Result<std::string> json_string(const json::object& object, std::string_view key, const std::string& origin) {
  return required(json_string_if(object, key, origin), key, origin, "a string");
}

Result<const json::object*> json_object(const json::object& object, std::string_view key, const std::string& origin) {
  TRY(const json::object* value, json_object_if(object, key, origin));
  if (value == nullptr) return missing(origin, key, "an object");
  return value;
}

Result<const json::array*> json_array(const json::object& object, std::string_view key, const std::string& origin) {
  TRY(const json::array* value, json_array_if(object, key, origin));
  if (value == nullptr) return missing(origin, key, "an array");
  return value;
}

}  // namespace knapsack
