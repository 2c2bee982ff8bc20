// What dropless throws: one exception type that says which argument was wrong, what it was and what was
// expected. Nothing is half done when it is thrown: arguments are checked before the first write.
#pragma once
#include <stdexcept>
#include <string>

namespace dropless {

/// A call was refused. `what()` reads "<argument> is <value>; expected <expectation>".
class Error : public std::runtime_error {
 public:
  Error(std::string argument, std::string value, std::string expectation)
      : std::runtime_error(argument + " is " + value + "; expected " + expectation),
        argument_(std::move(argument)),
        value_(std::move(value)),
        expectation_(std::move(expectation)) {}

  const std::string& argument() const noexcept { return argument_; }
  const std::string& value() const noexcept { return value_; }
  const std::string& expectation() const noexcept { return expectation_; }

 protected:
  /// For derived errors whose sentence has another shape.
  Error(const std::string& sentence, std::string argument, std::string value, std::string expectation)
      : std::runtime_error(sentence),
        argument_(std::move(argument)),
        value_(std::move(value)),
        expectation_(std::move(expectation)) {}

 private:
  std::string argument_, value_, expectation_;
};

/// A file was refused. `what()` reads "<path>: <place>: <reason>"; place is a line, a byte or a key, or
/// empty.
class FileError : public Error {
 public:
  FileError(const std::string& path, const std::string& place, const std::string& reason)
      : Error(path + ": " + (place.empty() ? "" : place + ": ") + reason, path, place, reason) {}

  const std::string& path() const noexcept { return argument(); }
  const std::string& place() const noexcept { return value(); }
  const std::string& reason() const noexcept { return expectation(); }
};

/// A CUDA call failed. `argument()` quotes the call, `value()` is the runtime's name for the error.
class CudaError : public Error {
 public:
  CudaError(const std::string& call, const std::string& error)
      : Error(call + " failed with " + error, call, error, "cudaSuccess") {}
};

}  // namespace dropless
