// An expert product as a value: an expert layer plans and checks all of its products before it launches the
// first.
#pragma once
#include "chosen_path.hpp"
#include "dropless/expert_products.hpp"

namespace dropless {

class PlannedProduct {
 public:
  enum class Verb { sdd, dsd, weight_gradient };

  /// sdd or dsd.
  PlannedProduct(Verb verb, const RowsView& in, const ExpertWeights& weights, const MutableRowsView& out,
                 bool accumulate = false)
      : verb_(verb), a_(in), weights_(weights), out_(out), accumulate_(accumulate) {}
  PlannedProduct(const RowsView& a, const RowsView& b, const ExpertGradients& gradients, bool accumulate)
      : verb_(Verb::weight_gradient), a_(a), b_(b), gradients_(gradients), accumulate_(accumulate) {}

  /// Throws Error where the operands do not fit together or the wanted path cannot run them.
  void check(const ExpertRows& rows, KernelPath wanted) const {
    const KernelPath possible = verb_ == Verb::sdd   ? sdd_path(rows, a_, weights_, out_)
                                : verb_ == Verb::dsd ? dsd_path(rows, a_, weights_, out_)
                                                     : weight_gradient_path(rows, a_, b_, gradients_);
    require_path(wanted, possible, "options.path");
  }

  /// A counter that the rows have is this product's alone.
  void run(const ExpertRows& rows, std::int32_t sm_limit, KernelPath path, Stream stream) const {
    const ProductOptions options{accumulate_, sm_limit, path, true};
    switch (verb_) {
      case Verb::sdd:
        return sdd(rows, a_, weights_, out_, options, stream);
      case Verb::dsd:
        return dsd(rows, a_, weights_, out_, options, stream);
      case Verb::weight_gradient:
        return weight_gradient(rows, a_, b_, gradients_, options, stream);
    }
  }

 private:
  Verb verb_;
  RowsView a_, b_{};
  ExpertWeights weights_{};
  MutableRowsView out_{};
  ExpertGradients gradients_{};
  bool accumulate_;
};

}  // namespace dropless
