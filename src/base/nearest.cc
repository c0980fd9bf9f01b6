#include "base/nearest.h"

#include <algorithm>
#include <utility>

namespace knapsack {
namespace {

constexpr std::size_t most_letters = 40;  // a word may come from a file, and the work grows with its square

// "Snapdragon 8 Gen 3" and "snapdragon-8-gen-3" are one.
std::string letters(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (out.size() == most_letters) break;
    if (c >= 'A' && c <= 'Z') {
      out += static_cast<char>(c - 'A' + 'a');
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80) {
      out += c;
    }
  }
  return out;
}

// The words of a name: "deepseek-r1-1.5b" is deepseek, r1, 1.5b.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : name.substr(0, 2 * most_letters)) {
    if (c == '-' || c == '_' || c == '/' || c == ' ') {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::size_t shared_words(const std::vector<std::string>& meant, std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  return static_cast<std::size_t>(std::count_if(meant.begin(), meant.end(), [&](const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  }));
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  word = word.substr(0, most_letters);
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;  // a third of the letters may be wrong
  for (const auto& candidate : candidates) {
    if (word.size() > 3 && candidate.starts_with(word)) return candidate;
    if (candidate.size() > 4 && word.starts_with(candidate + "-")) return candidate;  // --ctx-size for --ctx
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least && candidate.size() > 2) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> candidates,
                                       std::size_t count) {
  const std::string meant = letters(word);
  const std::vector<std::string> words = words_of(word);
  std::vector<std::pair<std::size_t, std::size_t>> order;  // distance, index
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string name = letters(candidates[i]);
    const bool part = meant.size() > 2 && name.size() > 2 &&
                      (name.find(meant) != std::string::npos || meant.find(name) != std::string::npos);
    const std::size_t missed = words.size() - shared_words(words, candidates[i]);
    order.emplace_back(edit_distance(meant, name) + (part ? 0 : missed * most_letters), i);
  }
  std::stable_sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (const auto& [distance, index] : order) {
    if (names.size() == count) break;
    names.push_back(candidates[index]);
  }
  return names;
}

}  // namespace knapsack
