#include "files/sniff.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "files/onnx_parse.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

bool starts_without_case(std::string_view text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  return std::equal(lower.begin(), lower.end(), text.begin(),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

}  // namespace

std::string guess_content(std::span<const std::byte> bytes) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (all.empty()) return "an empty file (a download that never started?)";
  std::string_view text = all;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (text.starts_with("version https://git-lfs"))
    return "a Git LFS pointer, not the file it points to (fetch it with: git lfs pull)";
  if (starts_without_case(text, "<!doctype html") || starts_without_case(text, "<html"))
    return "an HTML page (a download that needed a login, or a link to the page instead of the file?)";
  if (starts_without_case(text, "<?xml")) return "an XML document (an error page of the file server?)";
  if (all.starts_with("GGUF")) return "a GGUF file";
  for (const std::string_view magic : {"lmgg", "fmgg", "tjgg", "algg"}) {
    if (all.starts_with(magic)) return "a model in a GGML format older than GGUF (convert it with llama.cpp's tools)";
  }
  if (all.starts_with("PK\x03\x04")) return "a zip archive (a PyTorch checkpoint? convert it to safetensors)";
  if (bytes.size() > 2 && bytes[0] == std::byte{0x80} && bytes[1] >= std::byte{2} && bytes[1] <= std::byte{5})
    return "a Python pickle (a PyTorch checkpoint? convert it to safetensors)";
  if (all.starts_with("\x1f\x8b")) return "gzip-compressed data (unpack it first)";
  if (all.starts_with("\x28\xb5\x2f\xfd")) return "zstd-compressed data (unpack it first)";
  if (looks_like_onnx(bytes)) return "an ONNX model";
  if (bytes.size() > 9 && bytes[8] == std::byte{'{'} && load_unaligned<std::uint64_t>(bytes.data()) <= bytes.size() - 8)
    return "a safetensors file";
  if (text.starts_with("{")) return "a JSON text";
  if (all.substr(0, 4096).find_first_not_of('\0') == std::string_view::npos)
    return "only zero bytes at its start (a download that never finished?)";
  return "";
}

}  // namespace knapsack
