// The loops for x86. Each function is compiled for its own instruction set and is only called where the processor has
// it. An empty asm that "changes" an operand keeps the compiler from making one product of many equal ones; it costs no
// instruction.
#include <immintrin.h>

#include "device/mixes.h"

namespace knapsack {
namespace {

constexpr int chains = 8;  // independent sums, for 4 or 5 cycles of latency and two instructions a cycle

__attribute__((target("avx2,fma"))) void fma_256(std::int64_t steps) {
  constexpr int sums_count = 12;
  __m256 sums[sums_count];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  __m256 x = _mm256_set1_ps(0.5F);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (__m256& sum : sums) {
      asm volatile("" : "+x"(x));
      sum = _mm256_fmadd_ps(sum, x, x);
    }
  }
  asm volatile("" : : "m"(sums));
}

// `Before` products are summed in 16 bits, then widened to 32 and added.
template <int Before>
__attribute__((target("avx2"))) void maddubs_256(std::int64_t steps) {
  __m256i sums[chains];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  __m256i w = _mm256_set1_epi8(7);
  __m256i x = _mm256_set1_epi8(3);
  const __m256i ones = _mm256_set1_epi16(1);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (__m256i& sum : sums) {
      asm volatile("" : "+x"(w), "+x"(x));
      __m256i narrow = _mm256_maddubs_epi16(w, x);
      for (int i = 1; i < Before; ++i) {
        asm volatile("" : "+x"(w), "+x"(x));
        narrow = _mm256_add_epi16(narrow, _mm256_maddubs_epi16(w, x));
      }
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(narrow, ones));
    }
  }
  asm volatile("" : : "m"(sums));
}

__attribute__((target("avx2"))) void read_256(const std::byte* begin, std::int64_t bytes) {
  __m256i sums[4];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  const auto* at = reinterpret_cast<const __m256i*>(begin);
  const auto* end = reinterpret_cast<const __m256i*>(begin + bytes);
  for (; at + 4 <= end; at += 4)
    for (int i = 0; i < 4; ++i) sums[i] = _mm256_add_epi64(sums[i], _mm256_loadu_si256(at + i));
  for (; at < end; ++at) sums[0] = _mm256_add_epi64(sums[0], _mm256_loadu_si256(at));
  asm volatile("" : : "m"(sums));
}

// vpdpbusd in its VEX form: g++ 12 and clang 14 name the target alike.
__attribute__((target("avx2,avxvnni"))) void dpbusd_256(std::int64_t steps) {
  __m256i sums[chains];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  __m256i w = _mm256_set1_epi8(7);
  __m256i x = _mm256_set1_epi8(3);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (__m256i& sum : sums) {
      asm volatile("" : "+x"(w), "+x"(x));
      sum = _mm256_dpbusd_avx_epi32(sum, w, x);
    }
  }
  asm volatile("" : : "m"(sums));
}

__attribute__((target("avx512f"))) void fma_512(std::int64_t steps) {
  constexpr int sums_count = 12;
  __m512 sums[sums_count];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  __m512 x = _mm512_set1_ps(0.5F);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (__m512& sum : sums) {
      asm volatile("" : "+v"(x));
      sum = _mm512_fmadd_ps(sum, x, x);
    }
  }
  asm volatile("" : : "m"(sums));
}

template <int Before>
__attribute__((target("avx512f,avx512bw"))) void maddubs_512(std::int64_t steps) {
  __m512i sums[chains];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  __m512i w = _mm512_set1_epi32(0x07070707);
  __m512i x = _mm512_set1_epi32(0x03030303);
  const __m512i ones = _mm512_set1_epi32(0x00010001);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (__m512i& sum : sums) {
      asm volatile("" : "+v"(w), "+v"(x));
      __m512i narrow = _mm512_maddubs_epi16(w, x);
      for (int i = 1; i < Before; ++i) {
        asm volatile("" : "+v"(w), "+v"(x));
        narrow = _mm512_add_epi16(narrow, _mm512_maddubs_epi16(w, x));
      }
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(narrow, ones));
    }
  }
  asm volatile("" : : "m"(sums));
}

__attribute__((target("avx512f,avx512vnni"))) void dpbusd_512(std::int64_t steps) {
  __m512i sums[chains];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  __m512i w = _mm512_set1_epi32(0x07070707);
  __m512i x = _mm512_set1_epi32(0x03030303);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (__m512i& sum : sums) {
      asm volatile("" : "+v"(w), "+v"(x));
      sum = _mm512_dpbusd_epi32(sum, w, x);
    }
  }
  asm volatile("" : : "m"(sums));
}

// Magnitudes: a pair of 6-bit by 8-bit products is at most 2 * 63 * 127, twice that fits 16 bits; of 5-bit ones four
// times. (maddubs takes the codes unsigned; 8-bit weights are made so by their sign on the activation, one pair.)
constexpr int one_pair = 8;
constexpr int two_pairs = 6;
constexpr int four_pairs = 5;

Mix int8(std::string_view name, int bits, int bytes, int before, void (*run)(std::int64_t)) {
  return {.name = name,
          .products = Products::int8,
          .weight_bits = bits,
          .operations_a_step = 2.0 * bytes * before * chains,
          .run = run};
}

}  // namespace

std::vector<Mix> native_mixes(const Host& host) {
  std::vector<Mix> all;
  constexpr double fma_chains = 12;
  if (host.has("avx2") && host.has("fma")) {
    all.push_back({.name = "fma, 256 bits", .operations_a_step = 2 * 8 * fma_chains, .run = fma_256});
    all.push_back(int8("maddubs + madd + add, 256 bits", one_pair, 32, 1, maddubs_256<1>));
    all.push_back(int8("2 maddubs added in int16, madd + add, 256 bits", two_pairs, 32, 2, maddubs_256<2>));
    all.push_back(int8("4 maddubs added in int16, madd + add, 256 bits", four_pairs, 32, 4, maddubs_256<4>));
  }
  if (host.has("avx_vnni")) all.push_back(int8("vpdpbusd, 256 bits", 8, 32, 1, dpbusd_256));
  if (host.has("avx512f"))
    all.push_back({.name = "fma, 512 bits", .operations_a_step = 2 * 16 * fma_chains, .run = fma_512});
  if (host.has("avx512f") && host.has("avx512bw")) {
    all.push_back(int8("maddubs + madd + add, 512 bits", one_pair, 64, 1, maddubs_512<1>));
    all.push_back(int8("2 maddubs added in int16, madd + add, 512 bits", two_pairs, 64, 2, maddubs_512<2>));
    all.push_back(int8("4 maddubs added in int16, madd + add, 512 bits", four_pairs, 64, 4, maddubs_512<4>));
  }
  if (host.has("avx512_vnni")) all.push_back(int8("vpdpbusd, 512 bits", 8, 64, 1, dpbusd_512));
  return all;
}

ReadFn native_reader(const Host& host) { return host.has("avx2") ? read_256 : nullptr; }

}  // namespace knapsack
