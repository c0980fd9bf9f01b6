// SHA-256 against the published test values, and bytes that arrive in pieces.
#include "base/hash.h"

#include <gtest/gtest.h>

namespace knapsack {
namespace {

TEST(Sha256, KnownValues) {
  EXPECT_EQ(Sha256().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  hash.update(std::string_view("a"));
  hash.update(std::string_view(""));
  hash.update(std::string_view("bc"));
  EXPECT_EQ(hash.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash.hex(), hash.hex());
  hash.update(std::string_view("d"));
  EXPECT_EQ(hash.hex(), sha256_hex(std::as_bytes(std::span("abcd", 4))));
}

}  // namespace
}  // namespace knapsack
