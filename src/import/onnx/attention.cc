// Attention, the standard's and as ONNX Runtime fuses it, written in products, masks and Softmax.
#include <algorithm>
#include <cmath>

#include "graph/shape.h"
#include "import/onnx/parts.h"

namespace knapsack::onnx {
namespace {

constexpr double hidden_score = -65504;  // below any score, and there in every type of float

// What they have in common, once heads lie apart.
struct Heads {
  Ref q = -1, k = -1, v = -1;  // [batch, heads, tokens, columns], [batch, kv heads, length, columns]
  double scale = 0;            // 0: 1 / sqrt(columns)
  double softcap = 0;
  std::vector<Ref> added{};  // to the scores [batch, heads, tokens, length], broadcast
  Ref visible = -1;          // BOOL, the same; -1: everything
  Ref sinks = -1;            // a score beside the others, [batch, heads, tokens, 1]; -1: none
};

Ref repeated(Call& call, std::string_view suffix, Ref x, std::int64_t heads) {
  const Sizes dims = call.value_of(x).dims;
  if (call.failed() || dims[1] == heads) return x;
  const std::int64_t times = heads / dims[1];
  const Ref open = call.part(suffix, Op::Unsqueeze, {x}, Attrs().set(Attr::axes, Sizes{2}));
  const Ref each = expanded(call, suffix, open, {dims[0], dims[1], times, dims[2], dims[3]});
  return reshaped(call, suffix, each, {dims[0], heads, dims[2], dims[3]});
}

// [batch, tokens, heads * columns], or with heads apart: the node's first output. Scores are in F32, as ONNX Runtime
// has them.
Ref attended(Call& call, const Heads& h, bool apart = false) {
  if (call.failed() || h.q < 0 || h.k < 0 || h.v < 0) return -1;
  const Sizes dims = call.value_of(h.q).dims;
  const DType dtype = call.value_of(h.q).dtype;
  const Ref k = repeated(call, "keys", h.k, dims[1]);
  const Ref v = repeated(call, "values", h.v, dims[1]);
  Ref scores = call.part("scores", Op::MatMul, {h.q, transposed(call, "keys", k, {0, 1, 3, 2})});
  scores = call.cast("scores", scores, DType::F32);
  const double scale = h.scale != 0 ? h.scale : 1 / std::sqrt(static_cast<double>(dims[3]));
  scores = call.part("scaled", Op::Mul, {scores, call.scalar(DType::F32, scale)});
  if (h.softcap > 0) {
    const Ref cap = call.scalar(DType::F32, h.softcap);
    scores = call.part("capped", Op::Div, {scores, cap});
    scores = call.part("capped", Op::Tanh, {scores});
    scores = call.part("capped", Op::Mul, {scores, cap});
  }
  for (const Ref each : h.added) scores = call.part("masked", Op::Add, {scores, call.cast("mask", each, DType::F32)});
  if (h.visible >= 0)
    scores = call.part("masked", Op::Where, {h.visible, scores, call.scalar(DType::F32, hidden_score)});
  Ref probs = -1;
  if (h.sinks >= 0) {
    const std::int64_t length = call.value_of(scores).dims.back();
    const Ref all = concatenated(call, "with_sink", {scores, h.sinks}, 3);
    probs = call.part("probs", Op::Softmax, {all}, Attrs().set(Attr::axis, 3));
    probs = sliced(call, "probs", probs, 3, 0, length);
  } else {
    probs = call.part("probs", Op::Softmax, {scores}, Attrs().set(Attr::axis, 3));
  }
  probs = call.cast("probs", probs, dtype);
  if (apart) return call.output(0, Op::MatMul, {probs, v});
  const Ref made = call.part("heads", Op::MatMul, {probs, v});
  const Ref rows = transposed(call, "rows", made, {0, 2, 1, 3});
  if (call.failed()) return -1;
  const Sizes wide = call.value_of(rows).dims;
  return call.output(0, Op::Reshape, {rows}, Attrs().set(Attr::shape, Sizes{wide[0], wide[1], wide[2] * wide[3]}));
}

Ref heads_of(Call& call, std::string_view suffix, Ref x, std::int64_t heads) {
  if (call.failed() || x < 0) return -1;
  const Sizes dims = call.value_of(x).dims;
  if (dims.size() != 3 || heads < 1 || dims[2] % heads != 0) {
    call.broken("cannot make {} heads of its {}", heads, suffix);
    return -1;
  }
  return reshaped(call, suffix, x, {dims[0], dims[1], heads, dims[2] / heads});
}

Ref by_heads(Call& call, std::string_view suffix, Ref x) { return transposed(call, suffix, x, {0, 2, 1, 3}); }

// A key at places [.., length] is seen from `positions` [batch, 1, tokens, 1] where it is none that comes after, and
// one of the last `window`.
Ref causal(Call& call, Ref positions, std::int64_t length, std::int64_t window) {
  return call.once(fmt::format("causal {} {} {}", positions, length, window), [&] {
    const Ref places = counted(call, {1, 1, 1, length}, 0);
    const Ref before = call.part("visible", Op::LessOrEqual, {places, positions});
    if (window <= 0) return before;
    const Ref shifted = call.part("window", Op::Add, {places, call.scalar(DType::I64, static_cast<double>(window))});
    return call.part("visible", Op::And, {before, call.part("window", Op::Greater, {shifted, positions})});
  });
}

// Added to scores: 0 where the mask is not 0, else `filter`. The mask says how many keys a row of the batch has
// [batch], or for each of them, with a token's own perhaps: [batch, length], [batch, tokens, length].
Ref padding(Call& call, Ref mask, std::int64_t batch, std::int64_t tokens, std::int64_t length, double filter) {
  if (call.failed() || mask < 0) return -1;
  const Sizes dims = call.value_of(mask).dims;
  Ref seen = -1;
  if (dims == Sizes{batch}) {
    const Ref lengths = reshaped(call, "lengths", call.cast("lengths", mask, DType::I64), {batch, 1, 1, 1});
    seen = call.part("seen", Op::Less, {counted(call, {1, 1, 1, length}, 0), lengths});
  } else if (dims == Sizes{batch, length}) {
    seen = call.cast("seen", reshaped(call, "seen", mask, {batch, 1, 1, length}), DType::BOOL);
  } else if (dims == Sizes{batch, tokens, length}) {
    seen = call.cast("seen", reshaped(call, "seen", mask, {batch, 1, tokens, length}), DType::BOOL);
  } else {
    call.refuse("a mask of {} for {} tokens and {} keys; the nearest form is [batch, keys]", dims_text(dims), tokens,
                length);
    return -1;
  }
  return call.part("padding", Op::Where, {seen, call.scalar(DType::F32, 0), call.scalar(DType::F32, filter)});
}

// Newest keys or values behind those of the past, which may have none.
Ref appended(Call& call, std::size_t output, std::size_t past, Ref now) {
  if (!call.given(past) || call.value(past).elements() == 0) {
    if (!call.wanted(output)) return now;
    return call.output(output, Op::Identity, {now});
  }
  return call.output(output, Op::Concat, {call.in(past), now}, Attrs().set(Attr::axis, 2));
}

// Places of tokens behind `past`: [1, 1, tokens, 1]
Ref places_behind(Call& call, std::int64_t tokens, std::int64_t past) {
  return call.once(fmt::format("places {} {}", tokens, past), [&] { return counted(call, {1, 1, tokens, 1}, past); });
}

Ref unidirectional(Call& call, std::int64_t tokens, std::int64_t length) {
  return causal(call, places_behind(call, tokens, length - tokens), length, 0);
}

// Where GroupQueryAttention's tokens stand, [batch, tokens]: at the beginning of a prompt, or behind what each sequence
// has, of which `last` says the last place.
Ref positions_of(Call& call, Ref last, std::int64_t batch, std::int64_t tokens) {
  if (last < 0) {
    return call.once(fmt::format("positions {} {}", batch, tokens), [&] {
      return expanded(call, "positions", counted(call, {1, tokens}, 0), {batch, tokens});
    });
  }
  return call.once(fmt::format("positions behind {} {} {}", last, batch, tokens), [&] {
    const Ref each = reshaped(call, "lengths", call.cast("lengths", last, DType::I64), {batch, 1});
    return call.part("positions", Op::Add, {each, counted(call, {1, tokens}, 1 - tokens)});
  });
}

// Where these go in a cache [batch, heads, length, columns], for ScatterND. positions: [batch, 1, tokens, 1].
Ref cache_places(Call& call, Ref positions, std::int64_t batch, std::int64_t heads, std::int64_t tokens) {
  if (batch * heads > most_tokens / tokens) call.refuse("{} heads of {} tokens", batch * heads, tokens);
  return call.once(fmt::format("cache places {} {}", positions, heads), [&] {
    Sizes front;
    front.reserve(static_cast<std::size_t>(batch * heads * tokens * 2));
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t t = 0; t < tokens; ++t) front.insert(front.end(), {b, head});
    const Ref fixed = call.constant(DType::I64, {batch, heads, tokens, 2}, bytes_of(front));
    return concatenated(call, "places", {fixed, expanded(call, "places", positions, {batch, heads, tokens, 1})}, 3);
  });
}

}  // namespace

// The standard's: q, k and v [batch, heads, tokens, columns] or [batch, tokens, hidden], a mask [.., tokens, length]
// that is added or says what is visible, past keys and values -> y, keys, values
void attention(Call& call) {
  call.arity(3, 6);
  const std::int64_t q_heads = call.i("q_num_heads", 0);
  const std::int64_t kv_heads = call.i("kv_num_heads", 0);
  const bool one_way = call.flag("is_causal");
  Heads h{.scale = call.f("scale", 0), .softcap = call.f("softcap", 0)};
  call.ignore({"softmax_precision", "qk_matmul_output_mode"});  // F32; of an output that is refused
  if (call.given(4) != call.given(5)) call.broken("needs past keys and values, or neither");
  if (call.failed()) return;
  const bool apart = call.rank(0) == 4;
  const auto split = [&](const char* suffix, std::size_t i, std::int64_t heads) {
    if (!apart) return by_heads(call, suffix, heads_of(call, suffix, call.in(i), heads));
    if (call.rank(i) != 4) call.broken("needs its {} with heads apart, as its query", suffix);
    return call.in(i);
  };
  h.q = split("query", 0, q_heads);
  h.k = appended(call, 1, 4, split("key", 1, kv_heads));
  h.v = appended(call, 2, 5, split("value", 2, kv_heads));
  if (call.failed()) return;
  const Sizes from = call.value_of(h.q).dims;
  const Sizes keys = call.value_of(h.k).dims;
  if (keys[1] < 1 || from[1] % keys[1] != 0 || call.value_of(h.v).dims[1] != keys[1]) {
    call.broken("has {} heads of queries, {} of keys", from[1], keys[1]);
    return;
  }
  if (call.given(3)) {
    if (call.value(3).dtype == DType::BOOL) {
      h.visible = call.in(3);
    } else {
      h.added.push_back(call.in(3));
    }
  }
  if (one_way) {
    const std::int64_t past = call.given(4) ? call.dims(4)[2] : 0;
    const Ref before = causal(call, places_behind(call, from[2], past), keys[2], 0);
    h.visible = h.visible < 0 ? before : call.part("visible", Op::And, {h.visible, before});
  }
  const Ref y = attended(call, h, apart);
  call.make({y, h.k, h.v});
}

// ONNX Runtime's three.
// query [batch, tokens, hidden], with key and value packed behind it where these are not given; past keys and values
// [batch, kv heads, past, columns]; the number of keys of each sequence less one; the number of all; tables of RoPE;
// positions; a bias of scores; sinks. -> y, keys and values with the step's behind them, or in their place
void group_query_attention(Call& call) {
  call.arity(1, 12);
  const std::int64_t heads = call.i("num_heads", 0);
  const std::int64_t kv_heads = call.i("kv_num_heads", 0);
  const std::int64_t window = call.i("local_window_size", -1);
  const bool rotary = call.flag("do_rotary");
  const bool interleaved = call.flag("rotary_interleaved");
  Heads h{.scale = call.f("scale", 0), .softcap = call.f("softcap", 0)};
  const bool smooth = call.i("smooth_softmax", 0) > 0;
  if (call.i("qk_output", 0) != 0) call.refuse("qk_output={}; the nearest form is without it", call.i("qk_output", 0));
  if (call.i("kv_cache_bit_width", 0) != 0) call.refuse("a cache of integers; the nearest form is one of floats");
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (call.s(name, "NONE") != "NONE") call.refuse("{}; the nearest form is a cache of floats", name);
  if (heads < 1 || heads > most_tokens || kv_heads < 1 || heads % kv_heads != 0)
    call.broken("says num_heads={}, kv_num_heads={}", heads, kv_heads);
  if (!call.given(5) || !call.given(6)) call.broken("needs the lengths of sequences, and of all");
  if (call.given(1) != call.given(2)) call.broken("needs key and value, or neither");
  if (call.given(3) != call.given(4)) call.broken("needs past keys and values, or neither");
  if (call.failed()) return;
  const Sizes dims = call.dims(0);
  if (dims.size() != 3) {
    call.broken("needs a query of three dimensions");
    return;
  }
  const std::int64_t batch = dims[0];
  const std::int64_t tokens = dims[1];
  Ref query = call.in(0);
  Ref key = -1;
  Ref value = -1;
  if (call.given(1)) {
    key = call.in(1);
    value = call.in(2);
  } else {
    const std::int64_t all = heads + 2 * kv_heads;
    if (dims[2] % all != 0) {
      call.broken("cannot make {} heads of {} columns", all, dims[2]);
      return;
    }
    const std::int64_t columns = dims[2] / all;
    query = sliced(call, "query", call.in(0), 2, 0, heads * columns);
    key = sliced(call, "key", call.in(0), 2, heads * columns, (heads + kv_heads) * columns);
    value = sliced(call, "value", call.in(0), 2, (heads + kv_heads) * columns, dims[2]);
  }
  query = heads_of(call, "query", query, heads);
  key = heads_of(call, "key", key, kv_heads);
  value = heads_of(call, "value", value, kv_heads);
  if (call.failed()) return;
  const std::int64_t columns = call.value_of(query).dims[3];
  if (call.value_of(key).dims != Sizes{batch, tokens, kv_heads, columns} ||
      call.value_of(value).dims != call.value_of(key).dims) {
    call.broken("needs keys and values of as many columns a head as queries");
    return;
  }
  const bool has_past = call.given(3) && call.value(3).elements() > 0;
  const std::int64_t past = has_past ? call.dims(3)[2] : 0;
  if (has_past && (call.dims(3) != Sizes{batch, kv_heads, past, columns} || call.dims(4) != call.dims(3))) {
    call.broken("needs past keys and values of [{}, {}, past, {}]", batch, kv_heads, columns);
    return;
  }
  // Where the step's tokens stand: behind what each sequence has; at the beginning where they are all there is.
  const std::int64_t total = call.constant(6) ? call.number(6, "total_sequence_length") : -1;
  if (call.failed()) return;
  if (total >= 0 && total != past + tokens && (total > past || total < tokens)) {
    call.broken("says {} tokens in all, has {} and a cache of {}", total, tokens, past);
    return;
  }
  const bool whole = past == 0 || total == tokens;  // a prompt
  const Ref positions = positions_of(call, whole ? -1 : call.in(5), batch, tokens);
  if (rotary) {
    if (!call.given(7) || !call.given(8)) call.broken("needs tables for its rotation");
    if (call.failed()) return;
    const Ref turns = call.given(9) ? call.cast("turns", call.in(9), DType::I64) : positions;
    const Ref cos = angles(call, "cos", call.in(7), turns);
    const Ref sin = angles(call, "sin", call.in(8), turns);
    const std::int64_t width = 2 * call.dims(7).back();
    if (call.failed()) return;
    if (width > columns) {
      call.broken("cannot turn {} of {} columns", width, columns);
      return;
    }
    query = rotated(call, "turned_query", query, cos, sin, width, interleaved);
    key = rotated(call, "turned_key", key, cos, sin, width, interleaved);
  }
  h.q = by_heads(call, "query", query);
  h.k = by_heads(call, "key", key);
  h.v = by_heads(call, "value", value);
  const Ref rows = call.once(fmt::format("rows {}", positions), [&] {
    return reshaped(call, "rows", positions, {batch, 1, tokens, 1});
  });
  if (past == 0) {
    if (call.wanted(1)) h.k = call.output(1, Op::Identity, {h.k});
    if (call.wanted(2)) h.v = call.output(2, Op::Identity, {h.v});
  } else {
    // By index, since a sequence may be shorter than the longest.
    const Ref places = cache_places(call, rows, batch, kv_heads, tokens);
    const auto written = [&](std::size_t output, std::size_t cache, Ref now) {
      Ref into = call.in(cache);
      if (total > past) into = concatenated(call, "longer", {into, now}, 2);
      return call.output(output, Op::ScatterND, {into, places, now});
    };
    h.k = written(1, 3, h.k);
    h.v = written(2, 4, h.v);
  }
  if (call.failed()) return;
  const std::int64_t length = call.value_of(h.k).dims[2];
  h.visible = causal(call, rows, length, std::min(window, length));
  if (call.given(10)) h.added.push_back(call.in(10));
  if (call.given(11)) {
    const Ref each = reshaped(call, "sinks", call.cast("sinks", call.in(11), DType::F32), {1, heads, 1, 1});
    h.sinks = expanded(call, "sinks", each, {batch, heads, tokens, 1});
  } else if (smooth) {
    h.sinks = expanded(call, "sinks", call.constant(DType::F32, {1, 1, 1, 1}, bytes_of(DType::F32, {0})),
                       {batch, heads, tokens, 1});
  }
  const Ref y = attended(call, h);
  call.make({y, h.k, h.v});
}

// query [batch, tokens, hidden] or all three packed [batch, tokens, heads, 3, columns], key (or both packed [batch,
// length, heads, 2, columns]) and value, bias, padding mask, bias of scores, past keys and values -> y, keys, values
void multi_head_attention(Call& call) {
  call.arity(1, 8);
  const std::int64_t heads = call.i("num_heads", 0);
  const double filter = call.f("mask_filter_value", -10000);
  const bool one_way = call.flag("unidirectional");
  Heads h{.scale = call.f("scale", 0)};
  if (heads < 1 || heads > most_tokens) call.broken("says num_heads={}", heads);
  if (call.given(6) != call.given(7)) call.broken("needs past keys and values, or neither");
  if (call.failed()) return;
  Ref query = call.in(0);
  Ref key = call.given(1) ? call.in(1) : -1;
  Ref value = call.given(2) ? call.in(2) : -1;
  // Packed ones: [batch, length, heads, parts, columns].
  const auto unpacked = [&](Ref packed, std::int64_t part, const char* suffix) {
    const Sizes from = call.value_of(packed).dims;
    return reshaped(call, suffix, sliced(call, suffix, packed, 3, part, part + 1),
                    {from[0], from[1], from[2] * from[4]});
  };
  const auto is_packed = [&](Ref ref, std::int64_t parts) {
    const auto& from = call.value_of(ref).dims;
    return from.size() == 5 && from[2] == heads && from[3] == parts;
  };
  if (key < 0 && value < 0 && is_packed(query, 3)) {
    const Ref packed = query;
    query = unpacked(packed, 0, "query");
    key = unpacked(packed, 1, "key");
    value = unpacked(packed, 2, "value");
  } else if (key >= 0 && value < 0 && is_packed(key, 2)) {
    const Ref packed = key;
    key = unpacked(packed, 0, "key");
    value = unpacked(packed, 1, "value");
  }
  if (key < 0 || value < 0) {
    call.broken("needs a key and a value");
    return;
  }
  if (call.value_of(query).dims.size() != 3) {
    call.broken("needs a query of three dimensions");
    return;
  }
  const bool ready = call.value_of(key).dims.size() == 4;  // [batch, heads, length, columns], of another sequence
  if (call.given(3)) {
    const std::int64_t columns = call.value_of(query).dims[2];
    const std::int64_t all = call.value(3).elements();
    const auto biased = [&](const char* suffix, Ref x, std::int64_t begin, std::int64_t end) {
      return call.part(suffix, Op::Add, {x, sliced(call, "bias", call.in(3), 0, begin, end)});
    };
    if (call.rank(3) != 1 || all < 2 * columns) {
      call.broken("has a bias of {} for {} columns", all, columns);
      return;
    }
    query = biased("query", query, 0, columns);
    if (!ready) {
      key = biased("key", key, columns, 2 * columns);
      value = biased("value", value, 2 * columns, all);
    }
  }
  h.q = by_heads(call, "query", heads_of(call, "query", query, heads));
  h.k = ready ? key : by_heads(call, "key", heads_of(call, "key", key, heads));
  h.v = ready ? value : by_heads(call, "value", heads_of(call, "value", value, heads));
  h.k = appended(call, 1, 6, h.k);
  h.v = appended(call, 2, 7, h.v);
  if (call.failed()) return;
  const Sizes from = call.value_of(h.q).dims;
  const std::int64_t length = call.value_of(h.k).dims[2];
  if (call.given(5)) h.added.push_back(call.in(5));
  if (call.given(4)) h.added.push_back(padding(call, call.in(4), from[0], from[2], length, filter));
  if (one_way) h.visible = unidirectional(call, from[2], length);
  const Ref y = attended(call, h);
  call.make({y, h.k, h.v});
}

// x [batch, tokens, hidden], weights [hidden, q + k + v], bias, mask; a past and a bias of scores -> y
void fused_attention(Call& call) {
  call.arity(2, 6);
  const std::int64_t heads = call.i("num_heads", 0);
  const double filter = call.f("mask_filter_value", -10000);
  const bool one_way = call.flag("unidirectional");
  const auto sizes = call.ints("qkv_hidden_sizes");
  Heads h{.scale = call.f("scale", 0)};
  if (call.flag("do_rotary")) call.refuse("do_rotary=1; the nearest form is RotaryEmbedding and MultiHeadAttention");
  if (call.given(4)) call.refuse("a past of keys and values in one; the nearest form is GroupQueryAttention");
  if (call.flag("past_present_share_buffer")) call.refuse("past_present_share_buffer=1; the nearest form is 0");
  call.ignore({"rotary_embedding_dim"});
  if (heads < 1 || heads > most_tokens) call.broken("says num_heads={}", heads);
  if (call.failed()) return;
  const Sizes dims = call.dims(0);
  const Sizes weight = call.dims(1);
  if (dims.size() != 3 || weight.size() != 2 || weight[0] != dims[2]) {
    call.broken("needs a matrix for its {} columns", dims.back());
    return;
  }
  Sizes parts = sizes;
  if (parts.empty()) parts.assign(3, weight[1] / 3);
  const auto known = [&](std::int64_t part) { return part >= 1 && part <= weight[1]; };
  if (parts.size() != 3 || !std::all_of(parts.begin(), parts.end(), known) || parts[0] != parts[1] ||
      parts[0] + parts[1] + parts[2] != weight[1]) {
    call.broken("cannot make queries, keys and values of {} columns", weight[1]);
    return;
  }
  Ref all = call.part("qkv", Op::MatMul, {call.in(0), call.in(1)});
  if (call.given(2)) all = call.part("qkv", Op::Add, {all, call.in(2)});
  const auto part = [&](const char* suffix, std::int64_t begin, std::int64_t size) {
    return by_heads(call, suffix, heads_of(call, suffix, sliced(call, suffix, all, 2, begin, begin + size), heads));
  };
  h.q = part("query", 0, parts[0]);
  h.k = part("key", parts[0], parts[1]);
  h.v = part("value", parts[0] + parts[1], parts[2]);
  if (call.given(5)) h.added.push_back(call.in(5));
  if (call.given(3)) h.added.push_back(padding(call, call.in(3), dims[0], dims[1], dims[1], filter));
  if (one_way) h.visible = unidirectional(call, dims[1], dims[1]);
  const Ref y = attended(call, h);
  call.make({y});
}

}  // namespace knapsack::onnx
