// Result<T>: how everything that touches files, users or devices reports failure.
// Not for our own mistakes: those are CHECKs (check.h). Nothing is thrown across a module.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace knapsack {

// The process's exit codes (docs/design.md, "Errors").
enum class Code : int {
  gate = 1,         // a gate said no: acceptance, a threshold
  usage = 2,        // wrong arguments; a prompt longer than the context
  bad_input = 3,    // a broken file
  unsupported = 4,  // valid, but not something this version reads
  resource = 5,     // out of memory, disk, file handles
  interrupted = 130,
};

// `message` says what was expected, what was found, where (file and byte offset, tensor, layer), and what to do.
struct Error {
  Code code = Code::bad_input;
  std::string message;
};

// A value or an Error. Member names are those of std::expected.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

// One maker for each code: `return bad_input("{}: expected {} bytes, found {}", path, a, b);`
template <class... A>
Error usage_error(fmt::format_string<A...> f, A&&... a) {
  return {Code::usage, fmt::format(f, std::forward<A>(a)...)};
}
template <class... A>
Error bad_input(fmt::format_string<A...> f, A&&... a) {
  return {Code::bad_input, fmt::format(f, std::forward<A>(a)...)};
}
template <class... A>
Error unsupported(fmt::format_string<A...> f, A&&... a) {
  return {Code::unsupported, fmt::format(f, std::forward<A>(a)...)};
}
template <class... A>
Error out_of_resource(fmt::format_string<A...> f, A&&... a) {
  return {Code::resource, fmt::format(f, std::forward<A>(a)...)};
}

}  // namespace knapsack

#define KNAP_CONCAT_(a, b) a##b
#define KNAP_CONCAT(a, b) KNAP_CONCAT_(a, b)

// TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
#define TRY(declaration, expression)                                                                   \
  auto KNAP_CONCAT(try_, __LINE__) = (expression);                                                     \
  if (!KNAP_CONCAT(try_, __LINE__).has_value()) return std::move(KNAP_CONCAT(try_, __LINE__)).error(); \
  declaration = std::move(KNAP_CONCAT(try_, __LINE__)).value()

// TRY_VOID(f()): the enclosing function returns f()'s error, if any.
#define TRY_VOID(expression)                                         \
  do {                                                               \
    auto try_void_ = (expression);                                   \
    if (!try_void_.has_value()) return std::move(try_void_).error(); \
  } while (false)
