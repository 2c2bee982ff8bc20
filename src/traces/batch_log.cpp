// Batches as variable-length integers, and the sum of several ranks' logs.
#include "traces/batch_log.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace dropless::traces {
namespace {

// A record is its length in 4 bytes, then numbers of 7 bits a byte, the last byte of each with the high bit
// clear.
constexpr std::int64_t length_bytes = 4;

void put(std::vector<unsigned char>& to, std::int64_t number) {
  auto rest = static_cast<std::uint64_t>(number);
  for (; rest >= 128; rest >>= 7) to.push_back(static_cast<unsigned char>(rest | 128));
  to.push_back(static_cast<unsigned char>(rest));
}

void put(std::vector<unsigned char>& to, const SparseRows& rows) {
  put(to, static_cast<std::int64_t>(rows.size()));
  for (const auto& [expert, count] : rows) {
    put(to, expert);
    put(to, count);
  }
}

struct Numbers {
  const unsigned char* at;

  std::int64_t next() {
    std::uint64_t number = *at & 127;
    for (int shift = 7; *at++ >= 128; shift += 7) number |= std::uint64_t{*at & 127u} << shift;
    return static_cast<std::int64_t>(number);
  }
  void next(SparseRows& rows) {
    rows.resize(static_cast<std::size_t>(next()));
    for (auto& [expert, count] : rows) {
      expert = next();
      count = next();
    }
  }
};

}  // namespace

void BatchLog::add(LoggedBatch batch) {
  LoggedLayer& layer = layers[batch.layer];
  batch.index = layer.batches++;
  layer.tokens += batch.tokens;
  layer.unrouted += batch.unrouted;
  layer.duplicate_rows += batch.duplicate_rows;
  layer.has_rows |= !batch.rows.empty();
  for (const auto& [expert, rows] : batch.rows) {
    total_rows_ += std::min(rows, most_rows + 1);
    if (total_rows_ > most_rows) throw FileError(path_, "", "the counts add up to more than 2^53 rows");
  }
  encoded_.assign(length_bytes, 0);
  for (const std::int64_t number : {batch.layer, batch.step, batch.index, batch.tokens, batch.unrouted,
                                    batch.duplicate_rows, batch.warmup_rows})
    put(encoded_, number);
  put(encoded_, batch.rows);
  put(encoded_, batch.warmup);
  const auto length = static_cast<std::uint32_t>(encoded_.size() - length_bytes);
  std::memcpy(encoded_.data(), &length, length_bytes);
  bytes_->append(encoded_.data(), encoded_.size());
}

void BatchLog::replay(int worker, int workers, std::int64_t in_a_row,
                      const std::function<void(const LoggedBatch&)>& use) const {
  std::vector<unsigned char> window;
  std::int64_t window_begin = 0;
  // The record part [begin, begin + count), read ahead in pieces of at least 1 MiB.
  const auto at = [&](std::int64_t begin, std::int64_t count) {
    const std::int64_t window_end = window_begin + static_cast<std::int64_t>(window.size());
    if (begin < window_begin || begin + count > window_end) {
      const std::int64_t ahead = std::min(std::max<std::int64_t>(count, 1 << 20), bytes_->size() - begin);
      window.resize(static_cast<std::size_t>(ahead));
      bytes_->read(begin, window.data(), ahead);
      window_begin = begin;
    }
    return window.data() + (begin - window_begin);
  };
  LoggedBatch batch;
  for (std::int64_t begin = 0; begin < bytes_->size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, at(begin, length_bytes), length_bytes);
    begin += length_bytes;
    Numbers numbers{at(begin, length)};
    for (std::int64_t* number : {&batch.layer, &batch.step, &batch.index}) *number = numbers.next();
    if ((batch.layer + batch.index / in_a_row) % workers == worker) {
      for (std::int64_t* number : {&batch.tokens, &batch.unrouted, &batch.duplicate_rows, &batch.warmup_rows})
        *number = numbers.next();
      numbers.next(batch.rows);
      numbers.next(batch.warmup);
      use(batch);
    }
    begin += length;
  }
}

RankSum sum_ranks(const std::string& path, const std::vector<BatchLog>& ranks) {
  // Layer, step, and how many batches of that layer and step came before it.
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, std::pair<LoggedBatch, std::size_t>> sums;  // and how many ranks have it
  const auto add_rows = [](SparseRows& to, const SparseRows& from) {
    SparseRows sum;
    auto a = to.begin();
    for (const auto& [expert, rows] : from) {
      for (; a != to.end() && a->first < expert; ++a) sum.push_back(*a);
      const bool both = a != to.end() && a->first == expert;
      sum.emplace_back(expert, rows + (both ? a->second : 0));  // each below most_rows, so no wrap
      if (both) ++a;
    }
    sum.insert(sum.end(), a, to.end());
    to = std::move(sum);
  };
  RankSum result{BatchLog(path)};
  BatchLog& total = result.log;
  std::map<std::int64_t, std::size_t> ranks_of_layer;
  for (const BatchLog& rank : ranks) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> seen;
    rank.replay(0, 1, 1, [&](const LoggedBatch& batch) {
      auto& [sum, holders] = sums[{batch.layer, batch.step, seen[{batch.layer, batch.step}]++}];
      ++holders;
      sum.layer = batch.layer;
      sum.step = batch.step;
      sum.tokens += batch.tokens;
      sum.unrouted += batch.unrouted;
      sum.duplicate_rows += batch.duplicate_rows;
      sum.warmup_rows += batch.warmup_rows;
      add_rows(sum.rows, batch.rows);
      add_rows(sum.warmup, batch.warmup);
    });
    total.experts = std::max(total.experts, rank.experts);
    total.experts_complete |= rank.experts_complete;
    total.top_k = std::max(total.top_k, rank.top_k);
    total.counts |= rank.counts;
    total.running_sums |= rank.running_sums;
    total.steps_again += rank.steps_again;
    for (const auto& [number, layer] : rank.layers) ++ranks_of_layer[number];
  }
  std::size_t most_ranks = 0;
  for (const auto& [number, holders] : ranks_of_layer) most_ranks = std::max(most_ranks, holders);
  for (auto& [key, batch] : sums) {
    auto& [sum, holders] = batch;
    ++result.batches;
    result.summed_batches += holders > 1;
    result.incomplete_batches += holders < most_ranks;
    total.add(std::move(sum));
  }
  for (const BatchLog& rank : ranks)
    for (const auto& [number, layer] : rank.layers) {
      total.layers[number].warmup_rows += layer.warmup_rows;
      total.layers[number].repeats_one &= layer.repeats_one;
    }
  return result;
}

}  // namespace dropless::traces
