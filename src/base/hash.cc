#include "base/hash.h"

#include <openssl/evp.h>

#include <array>

#include "base/check.h"

namespace knapsack {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() { CHECK(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::string Sha256::hex() const {
  // Finished on a copy, so that more bytes may follow.
  const State copy;
  CHECK(EVP_MD_CTX_copy_ex(copy.context, state_->context) == 1);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  CHECK(EVP_DigestFinal_ex(copy.context, digest.data(), &size) == 1);
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text.push_back(digits[digest[i] >> 4]);
    text.push_back(digits[digest[i] & 15]);
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace knapsack
