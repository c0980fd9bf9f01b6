#include "evaluate/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/clock.h"
#include "runtime/log_softmax.h"

namespace knapsack {
namespace {

using Ids = std::span<const std::int32_t>;

// Tokens [begin, end) of the text make a window; those from `scored` on are scored in it.
struct Window {
  std::size_t begin;
  std::size_t end;
  std::size_t scored;
};

std::int64_t stride_of(const PerplexityOptions& options) {
  return options.stride != 0 ? options.stride : options.window / 2;
}

std::vector<Window> cut(std::size_t tokens, const PerplexityOptions& options) {
  const auto window = static_cast<std::size_t>(options.window);
  std::vector<Window> windows;
  if (options.method == PerplexityMethod::llama) {
    for (std::size_t begin = 0; begin + window <= tokens; begin += window)
      windows.push_back({begin, begin + window, begin + window / 2 + 1});
    return windows;
  }
  std::size_t reached = 1;
  for (std::size_t begin = 0; reached < tokens; begin += static_cast<std::size_t>(stride_of(options))) {
    const std::size_t end = std::min(begin + window, tokens);
    // A stride of the whole window leaves a window's first token without a predecessor: it is not scored.
    windows.push_back({begin, end, std::max(reached, begin + 1)});
    reached = end;
  }
  return windows;
}

Result<void> check(const PerplexityOptions& options, std::int64_t ctx) {
  if (options.window < 4) return usage_error("the window must be at least 4 tokens, found {}", options.window);
  if (options.window > ctx)
    return usage_error("a window of {} tokens does not fit the context of {}; ask for a larger context (--ctx)",
                       options.window, ctx);
  if (options.stride < 0 || (options.method == PerplexityMethod::sliding && options.stride > options.window))
    return usage_error("the stride must be 1 to the window's {} tokens, found {}", options.window, options.stride);
  return {};
}

struct Sums {
  double nll = 0;
  double squares = 0;
  std::int64_t count = 0;
  bool broken = false;
};

void add(Sums& sums, std::span<const float> logits, std::int32_t id) {
  const double nll = log_sum_exp(logits) - static_cast<double>(logits[static_cast<std::size_t>(id)]);
  sums.broken |= std::isnan(nll);
  sums.nll += nll;
  sums.squares += nll * nll;
  ++sums.count;
}

}  // namespace

std::string_view method_name(PerplexityMethod method) {
  return method == PerplexityMethod::llama ? "llama" : "sliding";
}

Result<PerplexityReport> perplexity(Session& session, std::string_view text, const PerplexityOptions& options,
                                    const std::stop_token& stop) {
  TRY_VOID(check(options, session.ctx()));
  TRY(const auto tokenizer, session.tokenizer());
  TRY(std::vector<std::int32_t> ids, tokenizer->encode(text, true));
  const std::size_t needed = options.method == PerplexityMethod::llama ? static_cast<std::size_t>(options.window) : 2;
  if (ids.size() < needed)
    return bad_input("the text has {} tokens; this needs at least {}: give a longer text{}", ids.size(), needed,
                     options.method == PerplexityMethod::llama ? " or a smaller window" : "");
  // What the tokenizer puts before a text: nothing, or a BOS.
  TRY(const auto bare, tokenizer->encode("a", false));
  TRY(const auto dressed, tokenizer->encode("a", true));
  const bool adds_bos = !dressed.empty() && (bare.empty() || dressed.front() != bare.front());

  PerplexityReport report;
  report.tokens = static_cast<std::int64_t>(ids.size());
  const auto windows = cut(ids.size(), options);
  std::size_t work = 0;
  for (const auto& w : windows) work += w.end - w.begin;
  Sums sums;
  const Stopwatch watch;
  for (const auto& w : windows) {
    const Ids part = Ids(ids).subspan(w.begin, w.end - w.begin);
    const std::size_t from = w.scored - w.begin;
    const auto bytes = [&](std::size_t count) { return tokenizer->decode(part.first(count), true).size(); };
    report.scored_bytes += static_cast<std::int64_t>(bytes(part.size()) - bytes(from));
    const std::int32_t kept = ids[w.begin];
    if (adds_bos && options.method == PerplexityMethod::llama) ids[w.begin] = dressed.front();
    // The logits of a position are for the token after it.
    const auto on_logits = [&](std::int64_t first, std::int64_t rows, std::span<const float> logits) {
      const auto vocab = logits.size() / static_cast<std::size_t>(rows);
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto next = static_cast<std::size_t>(first + row + 1);
        if (next >= from && next < part.size())
          add(sums, logits.subspan(static_cast<std::size_t>(row) * vocab, vocab), part[next]);
      }
      if (options.progress)
        options.progress(static_cast<double>(report.evaluated + first + rows) / static_cast<double>(work),
                         std::exp(sums.nll / static_cast<double>(std::max<std::int64_t>(1, sums.count))));
    };
    // The last position predicts nothing that is known, so it is not run.
    TRY_VOID(session.score(part.first(part.size() - 1), static_cast<std::int64_t>(from) - 1, on_logits, stop));
    ids[w.begin] = kept;
    if (sums.broken)
      return bad_input(
          "the model's logits are not numbers in the window that begins at token {}; its weights are damaged "
          "(see `knapsack inspect --check`)",
          w.begin);
    report.evaluated += static_cast<std::int64_t>(part.size());
    ++report.windows;
  }
  report.seconds = watch.ms() / 1000;
  const auto count = static_cast<double>(sums.count);
  report.scored = sums.count;
  report.mean_nll = sums.nll / count;
  report.perplexity = std::exp(report.mean_nll);
  const double variance = sums.squares / count - report.mean_nll * report.mean_nll;
  if (sums.count > 1) report.standard_error = std::sqrt(std::max(variance, 0.0) / (count - 1)) * report.perplexity;
  if (report.scored_bytes > 0)
    report.bits_per_byte = sums.nll / std::numbers::ln2 / static_cast<double>(report.scored_bytes);
  report.tokens_per_s = report.seconds > 0 ? static_cast<double>(report.evaluated) / report.seconds : 0;
  return report;
}

}  // namespace knapsack
