// A pointer and a length over memory that somebody else owns (the public headers are C++17, which has no
// span).
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace dropless {

/// `size` elements from `data`; owns nothing and is valid while its owner keeps the memory.
template <class T>
class ArrayView {
 public:
  constexpr ArrayView() = default;
  constexpr ArrayView(T* data, std::size_t size) : data_(data), size_(size) {}
  template <class Vector,
            class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Vector&>().data()), T*>>>
  constexpr ArrayView(Vector&& vector) : data_(vector.data()), size_(vector.size()) {}

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace dropless
