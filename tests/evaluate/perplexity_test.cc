// Which tokens each method scores, in which context, and what it makes of their likelihoods: on a made-up model whose
// logits are a known function of the window.
#include "evaluate/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace knapsack {
namespace {

constexpr std::int32_t vocab = 30;
constexpr std::int32_t bos = 26;

// Letters a to z are ids 0 to 25; id 26 is a BOS.
class Letters final : public Tokenizer {
 public:
  explicit Letters(bool adds_bos) : adds_bos_(adds_bos) {}
  Result<std::vector<std::int32_t>> encode(std::string_view text, bool add_special) const override {
    std::vector<std::int32_t> ids;
    if (add_special && adds_bos_) ids.push_back(bos);
    for (const char c : text) ids.push_back(c - 'a');
    return ids;
  }
  std::int64_t least_tokens(std::string_view) const override { return 0; }
  std::string decode(std::span<const std::int32_t> ids, bool) const override {
    std::string text;
    for (const auto id : ids)
      if (id != bos) text.push_back(static_cast<char>('a' + id));
    return text;
  }
  std::string piece(std::int32_t) const override { return ""; }
  std::optional<std::int32_t> id_of(std::string_view) const override { return std::nullopt; }
  bool is_special(std::int32_t id) const override { return id == bos; }
  std::int64_t vocab_size() const override { return vocab; }
  std::int32_t largest_id() const override { return vocab - 1; }
  std::unique_ptr<Stream> open_stream(bool) const override { return nullptr; }  // scoring decodes nothing

 private:
  bool adds_bos_;
};

// The logit of token t after ids[0..i]: depends on the first token, the last one and the position.
float logit(std::span<const std::int32_t> ids, std::size_t i, std::int32_t t) {
  return static_cast<float>((ids[0] * 7 + ids[i] * 3 + static_cast<std::int32_t>(i) * 5 + t * 11) % 17) / 4;
}

double nll(std::span<const std::int32_t> window, std::size_t i) {  // of window[i]
  double sum = 0;
  for (std::int32_t t = 0; t < vocab; ++t) sum += std::exp(static_cast<double>(logit(window, i - 1, t)));
  return std::log(sum) - static_cast<double>(logit(window, i - 1, window[i]));
}

class MadeUp final : public Session {
 public:
  explicit MadeUp(bool adds_bos) : tokenizer_(std::make_shared<Letters>(adds_bos)) {}
  Result<std::shared_ptr<const Tokenizer>> tokenizer() override { return tokenizer_; }
  Result<Completion> generate(std::span<const std::int32_t>, const GenerateOptions&,
                              const std::function<void(std::string_view)>&, std::stop_token) override {
    return Completion{};
  }
  Result<void> score(std::span<const std::int32_t> ids, std::int64_t from, const OnLogits& on_logits,
                     std::stop_token stop) override {
    constexpr std::int64_t chunk = 3;
    const auto n = static_cast<std::int64_t>(ids.size());
    for (std::int64_t first = from; first < n; first += chunk) {
      if (stop.stop_requested()) return Error{Code::interrupted, "interrupted"};
      const std::int64_t rows = std::min(chunk, n - first);
      std::vector<float> logits;
      for (std::int64_t i = first; i < first + rows; ++i)
        for (std::int32_t t = 0; t < vocab; ++t)
          logits.push_back(broken ? std::numeric_limits<float>::quiet_NaN()
                                  : logit(ids, static_cast<std::size_t>(i), t));
      on_logits(first, rows, logits);
    }
    return {};
  }
  void reset() override {}
  std::int64_t ctx() const override { return 64; }
  const Bundle& bundle() const override { return bundle_; }
  std::size_t kv_bytes() const override { return 0; }
  std::size_t arena_bytes() const override { return 0; }
  bool broken = false;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  Bundle bundle_;
};

std::string text_of(std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text.push_back(static_cast<char>('a' + i * i % 26));
  return text;
}

TEST(Perplexity, SlidingScoresEachTokenButTheFirstOnce) {
  for (const bool adds_bos : {false, true}) {
    for (const std::size_t length : {2U, 9U, 10U, 11U, 37U, 40U}) {
      for (const std::size_t stride : {1U, 4U, 9U}) {
        constexpr std::size_t window = 10;
        MadeUp session(adds_bos);
        const std::string text = text_of(length);
        const auto ids = *(*session.tokenizer())->encode(text, true);
        double sum = 0;
        double squares = 0;
        for (std::size_t token = 1; token < ids.size(); ++token) {
          // The first window, in steps of the stride, that reaches the token.
          std::size_t begin = 0;
          while (begin + window <= token) begin += stride;
          const double x = nll(std::span(ids).subspan(begin, token - begin + 1), token - begin);
          sum += x;
          squares += x * x;
        }
        const auto n = static_cast<double>(ids.size() - 1);
        const auto report = perplexity(session, text, {.window = window, .stride = static_cast<std::int64_t>(stride)});
        ASSERT_TRUE(report) << report.error().message;
        EXPECT_EQ(report->scored, static_cast<std::int64_t>(ids.size()) - 1);
        EXPECT_EQ(report->tokens, static_cast<std::int64_t>(ids.size()));
        EXPECT_EQ(report->scored_bytes, static_cast<std::int64_t>(adds_bos ? length : length - 1));
        EXPECT_NEAR(report->perplexity, std::exp(sum / n), 1e-5 * report->perplexity);
        EXPECT_NEAR(report->bits_per_byte, sum / std::log(2.0) / static_cast<double>(report->scored_bytes), 1e-5);
        if (n > 1) {
          EXPECT_NEAR(report->standard_error.value(),
                      std::sqrt((squares / n - sum / n * sum / n) / (n - 1)) * std::exp(sum / n), 1e-4);
        }
      }
    }
  }
}

TEST(Perplexity, LlamaScoresTheSecondHalfOfWholeChunks) {
  for (const bool adds_bos : {false, true}) {
    MadeUp session(adds_bos);
    const std::string text = text_of(47);
    const auto ids = *(*session.tokenizer())->encode(text, true);
    double sum = 0;
    std::int64_t count = 0;
    for (std::size_t begin = 0; begin + 10 <= ids.size(); begin += 10) {
      std::vector<std::int32_t> chunk(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                      ids.begin() + static_cast<std::ptrdiff_t>(begin) + 10);
      if (adds_bos) chunk[0] = bos;
      for (std::size_t i = 6; i < 10; ++i) {
        sum += nll(chunk, i);
        ++count;
      }
    }
    double last_done = 0;
    const auto report = perplexity(
        session, text,
        {.method = PerplexityMethod::llama, .window = 10, .progress = [&](double done, double) { last_done = done; }});
    ASSERT_TRUE(report);
    EXPECT_EQ(report->windows, 4);
    EXPECT_EQ(report->scored, count);
    EXPECT_EQ(report->scored_bytes, count);
    EXPECT_NEAR(report->perplexity, std::exp(sum / static_cast<double>(count)), 1e-5 * report->perplexity);
    EXPECT_GT(last_done, 0.9);
    EXPECT_LE(last_done, 1);
  }
}

TEST(Perplexity, RefusalsSayWhatIsNeeded) {
  MadeUp session(false);
  auto report = perplexity(session, text_of(9), {.method = PerplexityMethod::llama, .window = 10});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::bad_input);
  EXPECT_NE(report.error().message.find("9 tokens; this needs at least 10"), std::string::npos)
      << report.error().message;
  report = perplexity(session, "a", {.window = 10, .stride = 5});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::bad_input);
  for (const auto& [window, stride] : {std::pair{65, 10}, {3, 1}, {10, -1}, {10, 11}}) {
    report = perplexity(session, text_of(50), {.window = window, .stride = stride});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::usage);
  }
  session.broken = true;
  report = perplexity(session, text_of(50), {.window = 10, .stride = 5});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::bad_input);
  std::stop_source source;
  source.request_stop();
  report = perplexity(session, text_of(50), {.window = 10, .stride = 5}, source.get_token());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::interrupted);
}

}  // namespace
}  // namespace knapsack
