#include "cli/generated.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "report/terminal.h"

namespace knapsack {
namespace {

constexpr std::string_view open_tag = "<think>";
constexpr std::string_view close_tag = "</think>";
constexpr std::string_view dim_on = "\033[2m";
constexpr std::string_view dim_off = "\033[0m";

double rate(double count, double ms) { return count > 0 && ms > 0 ? count / ms * 1000 : 0; }

// How many bytes at the end of `text` may be the beginning of `tag`.
std::size_t tag_start(std::string_view text, std::string_view tag) {
  for (std::size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n)
    if (text.ends_with(tag.substr(0, n))) return n;
  return 0;
}

// The text comes in whole characters, so bytes of 0x80 and above pass.
void append_harmless(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
}

std::string_view finish_words(Finish finish) {
  switch (finish) {
    case Finish::stop:
      return "the model ended";
    case Finish::length:
      return "as many as asked for";
    case Finish::context:
      return "the context is full";
    case Finish::cancelled:
      return "stopped";
  }
  return "";
}

json::object logprob_json(std::int32_t id, float logprob, const Tokenizer* tokenizer) {
  json::object object{{"id", id}};
  if (tokenizer != nullptr) object["token"] = tokenizer->decode(std::span(&id, 1), false);
  object["logprob"] = logprob;
  return object;
}

}  // namespace

std::string shown_token(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string text = tokenizer.decode(std::span(&id, 1), false);
  return json::serialize(json::value(text.find("\uFFFD") == std::string::npos ? text : tokenizer.piece(id)));
}

double prefill_tokens_per_s(const Completion& c) { return rate(static_cast<double>(c.prefilled_tokens), c.prefill_ms); }
double decode_tokens_per_s(const Completion& c) { return rate(static_cast<double>(c.decode_tokens), c.decode_ms); }

std::string figures(const Completion& c, const GenerateOptions& options) {
  const bool dim = use_colour(STDERR_FILENO);
  const std::string first = fmt::format("TTFT {:.0f} ms, prefill {} tokens at {:.1f} tokens/s,", c.ttft_ms,
                                        c.prefilled_tokens, prefill_tokens_per_s(c));
  // A first token is all prefill's.
  const std::string decode =
      c.ids.size() > 1 ? fmt::format("decode {} tokens at {:.1f} tokens/s", c.ids.size(), decode_tokens_per_s(c))
                       : fmt::format("{} token{}", c.ids.size(), c.ids.size() == 1 ? "" : "s");
  const std::string second = fmt::format(
      "{}{}, {}{}", decode, c.drafted > 0 ? fmt::format(" ({} of {} guesses right)", c.accepted, c.drafted) : "",
      finish_words(c.finish), options.sampler.temperature > 0 ? fmt::format(", seed {}", options.sampler.seed) : "");
  const bool narrow = is_terminal(STDERR_FILENO) &&
                      first.size() + second.size() >= static_cast<std::size_t>(terminal_width(STDERR_FILENO));
  return fmt::format("{}{}{}{}{}\n", dim ? dim_on : "", first, narrow ? '\n' : ' ', second, dim ? dim_off : "");
}

json::object completion_json(const Completion& c, const Tokenizer* tokenizer) {
  json::object object{{"text", c.text}};
  object["token_ids"] = json::value_from(c.ids);
  object["prompt_tokens"] = c.prompt_tokens;
  object["completion_tokens"] = c.ids.size();
  object["drafted"] = c.drafted;
  object["accepted"] = c.accepted;
  object["finish_reason"] = finish_name(c.finish);
  object["ttft_ms"] = c.ttft_ms;
  object["prefill_tokens_per_s"] = prefill_tokens_per_s(c);
  object["decode_tokens_per_s"] = decode_tokens_per_s(c);
  if (!c.logprobs.empty()) {
    json::array list;
    for (const auto& token : c.logprobs) {
      json::object entry = logprob_json(token.id, token.logprob, tokenizer);
      json::array top;
      for (const auto& [id, logprob] : token.top) top.push_back(logprob_json(id, logprob, tokenizer));
      entry["top"] = std::move(top);
      list.push_back(std::move(entry));
    }
    object["logprobs"] = std::move(list);
  }
  return object;
}

ScreenText::ScreenText(bool terminal, bool colour, bool thinking)
    : terminal_(terminal), colour_(terminal && colour), dim_(colour_ && thinking) {}

std::string ScreenText::push(std::string_view text) {
  if (!terminal_) return std::string(text);
  std::string out;
  if (dim_ && !started_) out += dim_on;
  started_ = true;
  pending_ += text;
  while (true) {
    const std::string_view tag = dim_ ? close_tag : open_tag;
    const std::size_t at = colour_ ? pending_.find(tag) : std::string::npos;
    if (at == std::string::npos) {
      const std::size_t held = colour_ ? tag_start(pending_, tag) : 0;
      append_harmless(out, std::string_view(pending_).substr(0, pending_.size() - held));
      pending_.erase(0, pending_.size() - held);
      return out;
    }
    append_harmless(out, std::string_view(pending_).substr(0, at));
    out += dim_ ? fmt::format("{}{}", tag, dim_off) : fmt::format("{}{}", dim_on, tag);
    dim_ = !dim_;
    pending_.erase(0, at + tag.size());
  }
}

std::string ScreenText::finish() {
  std::string out;
  append_harmless(out, pending_);
  pending_.clear();
  if (dim_ && started_) out += dim_off;
  return out;
}

}  // namespace knapsack
