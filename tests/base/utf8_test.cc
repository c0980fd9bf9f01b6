// What counts as UTF-8, and that names out of files cannot drive a terminal.
#include "base/utf8.h"

#include <gtest/gtest.h>

namespace knapsack {
namespace {

TEST(Utf8, Validity) {
  for (const char* text : {"", "a", "é", "中", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xee\x80\x80"})
    EXPECT_TRUE(is_valid_utf8(text)) << text;
  for (const char* text : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe4\xb8", "\xc3("})
    EXPECT_FALSE(is_valid_utf8(text));
  EXPECT_EQ(valid_utf8_prefix("ab\xff"), 2U);
}

TEST(Utf8, PrintableIsSafeToPrint) {
  EXPECT_EQ(printable("blk.0.é"), "'blk.0.é'");
  EXPECT_EQ(printable("\x1b[31m\n\xff\xc2\x9b"), "'\\x1b[31m\\x0a\\xff\\xc2\\x9b'");
  EXPECT_EQ(printable(std::string(100, 'a'), 10), "'aaaaaaaaaa' (cut; 100 bytes)");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "'a\\x00b'");
}

}  // namespace
}  // namespace knapsack
