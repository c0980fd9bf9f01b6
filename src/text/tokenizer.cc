#include "text/tokenizer.h"

#include <utility>

#include "base/check.h"
#include "text/bridge/bytes.h"

namespace knapsack {
namespace {

class BridgeTokenizer final : public Tokenizer {
 public:
  BridgeTokenizer(const knap_tokenizer* handle, std::string origin) : handle_(handle), origin_(std::move(origin)) {}
  ~BridgeTokenizer() override { knap_tokenizer_close(handle_); }
  BridgeTokenizer(const BridgeTokenizer&) = delete;
  BridgeTokenizer& operator=(const BridgeTokenizer&) = delete;

  Result<std::vector<std::int32_t>> encode(std::string_view text, bool add_special) const override {
    knap_ids ids{};
    knap_bytes error{};
    if (knap_tokenizer_encode(handle_, text.data(), text.size(), add_special, &ids, &error) != 0) {
      return bad_input("{}: cannot tokenize: {}", origin_, take(error));
    }
    return take(ids);
  }

  std::int64_t least_tokens(std::string_view text) const override {
    return static_cast<std::int64_t>(knap_tokenizer_least_tokens(handle_, text.data(), text.size()));
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    const std::vector<std::uint32_t> unsigned_ids(ids.begin(), ids.end());  // a negative id becomes one that is absent
    knap_bytes out{};
    const int status = knap_tokenizer_decode(handle_, unsigned_ids.data(), unsigned_ids.size(), skip_special, &out);
    std::string text = take(out);
    return status == 0 ? text : std::string();  // a decoder that fails on its own vocabulary has no text to give
  }

  std::string piece(std::int32_t id) const override {
    if (id < 0) return {};
    knap_bytes out{};
    const int status = knap_tokenizer_piece(handle_, static_cast<std::uint32_t>(id), &out);
    std::string text = take(out);
    return status == 0 ? text : std::string();
  }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    const std::int64_t id = knap_tokenizer_id_of(handle_, token.data(), token.size());
    if (id < 0) return std::nullopt;
    return static_cast<std::int32_t>(id);
  }

  bool is_special(std::int32_t id) const override {
    return id >= 0 && knap_tokenizer_is_special(handle_, static_cast<std::uint32_t>(id));
  }

  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(knap_tokenizer_vocab_size(handle_)); }
  std::int32_t largest_id() const override { return static_cast<std::int32_t>(knap_tokenizer_largest_id(handle_)); }

 private:
  class BridgeStream final : public Stream {
   public:
    explicit BridgeStream(knap_stream* stream) : stream_(stream) {}
    ~BridgeStream() override { knap_stream_close(stream_); }
    BridgeStream(const BridgeStream&) = delete;
    BridgeStream& operator=(const BridgeStream&) = delete;

    std::string push(std::int32_t id) override {
      if (id < 0) return {};
      knap_bytes out{};
      const int status = knap_stream_push(stream_, static_cast<std::uint32_t>(id), &out);
      std::string text = take(out);
      return status == 0 ? text : std::string();
    }

    std::string finish() override {
      knap_bytes out{};
      const int status = knap_stream_finish(stream_, &out);
      std::string text = take(out);
      return status == 0 ? text : std::string();
    }

   private:
    knap_stream* stream_;
  };

  std::unique_ptr<Stream> open_stream(bool skip_special) const override {
    return std::make_unique<BridgeStream>(knap_stream_open(handle_, skip_special));
  }

  const knap_tokenizer* handle_;
  std::string origin_;
};

}  // namespace

// The tables of bridge/src/bpe.rs.
std::int64_t TokenizerSize::bytes() const {
  constexpr std::int64_t slot = 4;
  constexpr std::int64_t a_token = 8 + 2 * slot;
  constexpr std::int64_t a_merge = 12 + 2 * slot;
  return text + spellings + a_token * tokens + a_merge * merges;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view json, const std::string& origin) {
  const knap_tokenizer* handle = nullptr;
  knap_bytes error{};
  if (knap_tokenizer_open(json.data(), json.size(), &handle, &error) != 0) {
    return bad_input("{}: not a usable tokenizer.json: {}", origin, take(error));
  }
  return std::shared_ptr<const Tokenizer>(std::make_shared<BridgeTokenizer>(handle, origin));
}

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {
  CHECK(tokenizer_ != nullptr);
}

std::string StreamDecoder::push(std::int32_t id) {
  if (!stream_) stream_ = tokenizer_->open_stream(skip_special_);
  return stream_->push(id);
}

std::string StreamDecoder::finish() {
  if (!stream_) stream_ = tokenizer_->open_stream(skip_special_);
  std::string text = stream_->finish();
  stream_.reset();
  return text;
}

}  // namespace knapsack
