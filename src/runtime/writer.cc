#include "runtime/writer.h"

#include <algorithm>

#include "runtime/log_softmax.h"

namespace knapsack {

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::stop:
      return "stop";
    case Finish::length:
      return "length";
    case Finish::context:
      return "context";
    case Finish::cancelled:
      return "cancelled";
  }
  return "";
}

Writer::Writer(Engine& engine, Ids prompt, const GenerateOptions& options, const OnText& on_text, std::int64_t most)
    : engine_(&engine),
      stop_(options.stop),
      logprobs_(options.logprobs),
      max_tokens_(options.max_tokens),
      most_(most),
      on_text_(on_text),
      sampler_(options.sampler, engine.bundle().vocab, engine.ctx()),
      stops_(options.stop) {
  history_.reserve(prompt.size() + static_cast<std::size_t>(most));
  history_.assign(prompt.begin(), prompt.end());
  result_.prompt_tokens = static_cast<std::int64_t>(prompt.size());
  result_.ids.reserve(static_cast<std::size_t>(most));
  // Some 4 bytes a token; a long context is not paid for before it is used.
  result_.text.reserve(static_cast<std::size_t>(std::min<std::int64_t>(most, 16384)) * 5);
  if (!options.ignore_eos) end_ids_ = engine.bundle().eos_ids;
}

Result<Writer> Writer::create(Engine& engine, Ids prompt, const GenerateOptions& options, const OnText& on_text) {
  const Stopwatch since_call;
  TRY_VOID(check(options.sampler, engine.bundle().vocab));
  if (options.max_tokens < -1)
    return usage_error("max_tokens: expected -1 (to the context's end) or more, found {}", options.max_tokens);
  if (options.logprobs < 0) return usage_error("logprobs: expected 0 or more, found {}", options.logprobs);
  for (const auto& text : options.stop)
    if (text.empty()) return usage_error("a stop string is empty; it would stop before the first token");
  if (!options.stop.empty() && !engine.has_tokenizer())
    return unsupported("{}: stop strings need a tokenizer, and the model has none", engine.bundle().name);
  std::int32_t begin_id = 0;
  if (prompt.empty()) {
    TRY(begin_id, engine.bos());
    prompt = {&begin_id, 1};
  }
  TRY_VOID(engine.check_ids(prompt));
  const auto given = static_cast<std::int64_t>(prompt.size());
  if (given > engine.ctx())
    return usage_error(
        "the prompt has {} tokens, the context holds {}; shorten the prompt or ask for a larger context (--ctx)", given,
        engine.ctx());
  const std::int64_t room = engine.ctx() - given;
  Writer writer(engine, prompt, options, on_text, options.max_tokens < 0 ? room : std::min(room, options.max_tokens));
  writer.since_call_ = since_call;
  if (writer.most_ == 0) writer.end(options.max_tokens == 0 ? Finish::length : Finish::context);
  return writer;
}

void Writer::end(Finish finish) {
  result_.finish = finish;
  ended_ = true;
}

// What can only be known with the tokenizer: stop strings that name a special token.
Result<void> Writer::begin_text() {
  if (!engine_->has_tokenizer()) return {};
  TRY(auto tokenizer, engine_->tokenizer());
  for (const auto& name : stop_) {
    const auto special = tokenizer->id_of(name);
    if (special && tokenizer->is_special(*special)) end_ids_.push_back(*special);
  }
  decoder_.emplace(std::move(tokenizer), true);
  return {};
}

void Writer::pick(std::span<const float> logits) {
  picked_ = sampler_.sample(logits, history_);
  picked_from_ = logits;
}

Result<void> Writer::take() {
  TRY(const std::int32_t id, picked_);
  if (result_.ttft_ms == 0) {
    result_.ttft_ms = since_call_.ms();
    since_first_ = Stopwatch();
    TRY_VOID(begin_text());
  }
  if (std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end()) {
    end(Finish::stop);
    return {};
  }
  if (logprobs_ > 0) result_.logprobs.push_back(token_logprob(picked_from_, id, logprobs_));
  result_.ids.push_back(id);
  history_.push_back(id);
  if (push_text(id)) {
    end(Finish::stop);
  } else if (left() == 0) {
    end(static_cast<std::int64_t>(result_.ids.size()) == max_tokens_ ? Finish::length : Finish::context);
  }
  return {};
}

// True: a stop string is complete.
bool Writer::push_text(std::int32_t id) {
  if (!decoder_) return false;
  fresh_.clear();
  const bool stopped = stops_.push(decoder_->push(id), fresh_);
  emit();
  return stopped;
}

void Writer::emit() {
  result_.text += fresh_;
  if (!fresh_.empty() && on_text_) on_text_(fresh_);
}

Completion Writer::finish() {
  if (!ended_) end(Finish::cancelled);
  if (result_.ttft_ms > 0) result_.decode_ms = since_first_.ms();
  if (decoder_) {
    fresh_.clear();
    if (!stops_.push(decoder_->finish(), fresh_)) stops_.finish(fresh_);
    emit();
  }
  return std::move(result_);
}

}  // namespace knapsack
