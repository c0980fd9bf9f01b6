#include "cli/generation_flags.h"

#include <algorithm>
#include <limits>
#include <random>

#include "base/log.h"
#include "cli/model.h"

namespace knapsack {
namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 31;
constexpr double most_bias = 1e6;  // logits are far smaller; -inf bans a token outright

Result<std::pair<std::int32_t, float>> parse_bias(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return usage_error("--logit-bias: expected ID=VALUE, found \"{}\"", text);
  auto id = to_integer(text.substr(0, equals), 0, std::numeric_limits<std::int32_t>::max());
  if (!id) return usage_error("--logit-bias: token id: {}", id.error().message);
  const std::string number = text.substr(equals + 1);
  if (number == "-inf") return std::pair{static_cast<std::int32_t>(*id), -std::numeric_limits<float>::infinity()};
  auto value = to_number(number, -most_bias, most_bias);
  if (!value) return usage_error("--logit-bias: {}, or -inf", value.error().message);
  return std::pair{static_cast<std::int32_t>(*id), static_cast<float>(*value)};
}

}  // namespace

void GenerationFlags::describe(Arguments& arguments) {
  arguments.group("Length");
  arguments.integer("-n,--max-tokens", max_tokens_, -1, most_tokens,
                    "tokens to generate at most; -1: until the model ends or the context is full (default: -1)");
  arguments.integer("-c,--ctx", ctx_, 1, std::numeric_limits<std::int32_t>::max(),
                    "context in tokens, prompt and completion together (default: what the model was trained for, at "
                    "most 4096)");
  kv_flag(arguments, kv_);
  exact_flag(arguments, exact_);
  arguments.texts("--stop", "TEXT", stop_, "stop before this text");
  arguments.flag("--ignore-eos", ignore_eos_, "go on after the model's end tokens");
  arguments.group("Sampling");
  arguments.flag("--greedy", greedy_, "always the most likely token");
  arguments.integer("-s,--seed", seed_, -1, std::numeric_limits<std::int64_t>::max(),
                    "seed of sampling: the same text on every thread count; without --temp, --top-k ... nothing is "
                    "drawn; -1: random, "
                    "and reported (default: -1)");
  arguments.number("--temp,--temperature", temperature_, 0, 1000,
                   "divides the logits; 0: greedy (default: 0, or 1 beside --top-k, --top-p, --min-p, --typical and "
                   "--mirostat)");
  arguments.integer("--top-k", top_k_, 0, std::numeric_limits<std::int32_t>::max(), "the K most likely tokens; 0: all");
  arguments.number("--top-p", top_p_, 0, 1, "the most likely tokens up to this probability; 1: all");
  arguments.number("--min-p", min_p_, 0, 1, "tokens at least this likely relative to the best; 0: all");
  arguments.number("--typical", typical_, 0, 1, "locally typical tokens up to this probability; 1: all");
  arguments.number("--repeat-penalty", repeat_penalty_, 1e-3, 1000, "divides the logits of recent tokens; 1: off");
  arguments.number("--presence-penalty", presence_penalty_, -1000, 1000, "subtracted from the logits of recent tokens");
  arguments.number("--frequency-penalty", frequency_penalty_, -1000, 1000, "the same for each time they occurred");
  arguments.integer("--penalty-window", penalty_window_, -1, std::numeric_limits<std::int32_t>::max(),
                    "how many tokens back are recent; -1: all");
  arguments.texts("--logit-bias", "ID=X", logit_bias_, "added to a token's logit; -inf bans it");
  arguments.integer("--mirostat", mirostat_, 0, 2, "2: mirostat 2 instead of the filters above; 0: off");
  arguments.number("--mirostat-tau", mirostat_tau_, 0, 1000, "mirostat's surprise to keep to, in bits");
  arguments.number("--mirostat-eta", mirostat_eta_, 0, 1000, "mirostat's learning rate");
  arguments.number("--dry-multiplier", dry_multiplier_, 0, 1000, "DRY: strength of the penalty on repeats; 0: off");
  arguments.number("--dry-base", dry_base_, 1, 1000, "DRY: growth with the repeat's length");
  arguments.integer("--dry-allowed-length", dry_allowed_length_, 1, std::numeric_limits<std::int32_t>::max(),
                    "DRY: repeats up to this length are free");
  arguments.integer("--dry-window", dry_window_, -1, std::numeric_limits<std::int32_t>::max(),
                    "DRY: tokens back to look; -1: all");
  arguments.texts("--dry-breaker", "TEXT", dry_breakers_,
                  "DRY: text a repeat does not reach across (default: line end, colon, quotation mark, asterisk)");
  arguments.group("Speculation");
  arguments.choice(
      "--speculate", speculate_, {"lookup", "off"},
      "guess tokens from repeats in the text and check several in one step, where measurement says that it "
      "pays; the text is the same without");
  arguments.text("--draft", "MODEL", draft_, "a small model with the same vocabulary that guesses, too").complete =
      Complete::model;
  arguments.integer("--guesses", guesses_, 1, 1000,
                    "guess so many tokens a step, whatever it costs (default: as many as pay)");
  arguments.group("");
  arguments.integer("--logprobs", logprobs_, 0, 1000,
                    "report each token's log probability, with so many alternatives: a table on stderr, with -q, too; "
                    "part of --json");
}

bool GenerationFlags::asks_for_sampling() const {
  return temperature_.value_or(0) > 0 || (!temperature_ && (top_k_ || top_p_ || min_p_ || typical_ || mirostat_ == 2));
}

Result<void> GenerationFlags::check_alone() const {
  if (mirostat_ == 1) return usage_error("--mirostat: expected 0 or 2, found 1 (mirostat 1 is not offered)");
  if (greedy_ && asks_for_sampling())
    return usage_error("--greedy and an option that samples (--temperature, --top-k ...) exclude each other");
  if (speculate_ == "off" && (draft_ || guesses_))
    return usage_error("--speculate off and {} exclude each other", draft_ ? "--draft" : "--guesses");
  for (const auto& text : stop_)
    if (text.empty()) return usage_error("--stop: expected a text, found an empty one");
  for (const auto& text : dry_breakers_)
    if (text.empty()) return usage_error("--dry-breaker: expected a text, found an empty one");
  for (const auto& text : logit_bias_) TRY_VOID(parse_bias(text));
  TRY_VOID(resolve(nullptr, nullptr));
  return {};
}

SessionOptions GenerationFlags::session(std::shared_ptr<const Bundle> draft) const {
  SessionOptions options;
  options.ctx = ctx();
  options.kv = kv_dtype(kv_);
  options.lookup = speculate_ == "lookup";
  options.draft = std::move(draft);
  options.guesses = guesses_.value_or(-1);
  options.exact = exact_;
  return options;
}

Result<GenerateOptions> GenerationFlags::resolve(const GenerationDefaults* by_default,
                                                 const Tokenizer* tokenizer) const {
  GenerateOptions options;
  options.max_tokens = max_tokens_.value_or(-1);
  options.stop = stop_;
  options.logprobs = logprobs_;
  options.ignore_eos = ignore_eos_;
  const GenerationDefaults none;
  const GenerationDefaults& wishes = by_default == nullptr ? none : *by_default;
  SamplerOptions& s = options.sampler;
  const bool sampling = !greedy_ && (asks_for_sampling() || (!temperature_ && wishes.do_sample.value_or(false)));
  if (sampling) {
    s.temperature = temperature_ ? *temperature_ : wishes.temperature.value_or(1.0F);
    s.top_k = top_k_ ? *top_k_ : wishes.top_k.value_or(0);
    s.top_p = top_p_ ? *top_p_ : wishes.top_p.value_or(1.0F);
    s.min_p = min_p_ ? *min_p_ : wishes.min_p.value_or(0.0F);
    s.typical_p = typical_.value_or(1.0F);
    s.mirostat = mirostat_;
    s.seed = seed_.value_or(-1) >= 0 ? static_cast<std::uint64_t>(*seed_) : std::random_device{}();
  } else {
    s.seed = static_cast<std::uint64_t>(std::max<std::int64_t>(seed_.value_or(0), 0));
  }
  s.repetition_penalty = repeat_penalty_ ? *repeat_penalty_ : wishes.repetition_penalty.value_or(1.0F);
  s.presence_penalty = presence_penalty_;
  s.frequency_penalty = frequency_penalty_;
  s.penalty_window = penalty_window_;
  s.mirostat_tau = mirostat_tau_;
  s.mirostat_eta = mirostat_eta_;
  for (const auto& text : logit_bias_) {
    TRY(const auto bias, parse_bias(text));
    s.logit_bias.push_back(bias);
  }
  s.dry_multiplier = dry_multiplier_;
  s.dry_base = dry_base_;
  s.dry_allowed_length = dry_allowed_length_;
  s.dry_window = dry_window_;
  if (dry_multiplier_ > 0 && tokenizer != nullptr) {
    const std::vector<std::string> usual{"\n", ":", "\"", "*"};
    for (const auto& text : dry_breakers_.empty() ? usual : dry_breakers_) {
      TRY(auto ids, tokenizer->encode(text, false));
      if (!ids.empty()) s.dry_breakers.push_back(std::move(ids));
    }
  }
  TRY_VOID(check(s));
  return options;
}

void GenerationFlags::warn_of_idle(const SamplerOptions& s) const {
  const SamplerOptions usual;
  const auto idle = [](bool given, const char* name, const char* why) {
    if (given) warn("{} changes nothing: {}", name, why);
  };
  const bool greedy = s.temperature == 0;
  idle(greedy && seed_, "--seed", "the most likely token is always taken; sample with --temp, --top-k ...");
  for (const auto& [given, name] : {std::pair{top_k_.has_value(), "--top-k"},
                                    {top_p_.has_value(), "--top-p"},
                                    {min_p_.has_value(), "--min-p"},
                                    {typical_.has_value(), "--typical"}}) {
    idle(greedy && given, name, "at a temperature of 0 the most likely token is always taken");
    idle(!greedy && s.mirostat != 0 && given, name, "mirostat takes the place of the filters");
  }
  idle(greedy && mirostat_ == 2, "--mirostat", "at a temperature of 0 the most likely token is always taken");
  idle(mirostat_ == 0 && s.mirostat_tau != usual.mirostat_tau, "--mirostat-tau", "it needs --mirostat 2");
  idle(mirostat_ == 0 && s.mirostat_eta != usual.mirostat_eta, "--mirostat-eta", "it needs --mirostat 2");
  const bool dry = s.dry_multiplier > 0;
  idle(!dry && s.dry_base != usual.dry_base, "--dry-base", "it needs --dry-multiplier");
  idle(!dry && s.dry_allowed_length != usual.dry_allowed_length, "--dry-allowed-length", "it needs --dry-multiplier");
  idle(!dry && s.dry_window != usual.dry_window, "--dry-window", "it needs --dry-multiplier");
  idle(!dry && !dry_breakers_.empty(), "--dry-breaker", "it needs --dry-multiplier");
  const bool penalties = s.repetition_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0;
  idle(!penalties && s.penalty_window != usual.penalty_window, "--penalty-window",
       "it needs --repeat-penalty, --presence-penalty or --frequency-penalty");
}

void GenerationFlags::describe_session(json::object& object) const {
  object["kv"] = kv_;
  object["exact"] = exact_;
}

}  // namespace knapsack
