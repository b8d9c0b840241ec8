#include "client/cpp/edit.h"

namespace phitap::client {
namespace {

// A bound that is set, or not, on messages with `low` and `high`.
template <typename Message, typename Bounds>
void WriteBounds(const Bounds& bounds, Message* message) {
  if (bounds.low) message->set_low(*bounds.low);
  if (bounds.high) message->set_high(*bounds.high);
}

struct FeatureWriter {
  v1::FeatureEdit* message;

  void operator()(const SetFeature& set) const { message->set_set(set.value); }
  void operator()(const ScaleFeature& scale) const {
    message->set_scale(scale.factor);
  }
  void operator()(const AddToFeature& add) const {
    message->set_add(add.value);
  }
  void operator()(const FeatureOfRun& of) const {
    message->set_from_run(of.run);
  }
};

struct ChangeWriter {
  v1::Intervention* message;

  void operator()(const Set& set) const {
    *message->mutable_set()->mutable_value() = ToMessage(set.value);
  }
  void operator()(const Add& add) const {
    *message->mutable_add()->mutable_value() = ToMessage(add.value);
    if (add.scale != 1) message->mutable_add()->set_scale(add.scale);
  }
  void operator()(const Scale& scale) const {
    *message->mutable_scale()->mutable_value() = ToMessage(scale.factor);
  }
  void operator()(const ProjectOut& project) const {
    *message->mutable_project_out()->mutable_direction() =
        ToMessage(project.direction);
    message->mutable_project_out()->set_keep(project.keep);
  }
  void operator()(const ClampProjection& clamp) const {
    v1::ClampProjectionEdit* edit = message->mutable_clamp_projection();
    *edit->mutable_direction() = ToMessage(clamp.direction);
    WriteBounds(clamp, edit);
  }
  void operator()(const Swap& swap) const {
    *message->mutable_swap()->mutable_from() = ToMessage(swap.from);
    *message->mutable_swap()->mutable_to() = ToMessage(swap.to);
    message->mutable_swap()->set_both(swap.both);
  }
  void operator()(const Clamp& clamp) const {
    WriteBounds(clamp, message->mutable_clamp());
  }
  void operator()(const Noise& noise) const {
    message->mutable_noise()->set_scale(noise.scale);
    message->mutable_noise()->set_seed(noise.seed);
  }
  void operator()(const Knockout&) const { message->mutable_knockout(); }
  void operator()(const Skip&) const { message->mutable_skip(); }
  void operator()(const Subspace& subspace) const {
    v1::SubspaceEdit* edit = message->mutable_subspace();
    *edit->mutable_basis() = ToMessage(subspace.basis);
    *edit->mutable_source() = ToMessage(subspace.source);
    if (subspace.mask) *edit->mutable_mask() = ToMessage(*subspace.mask);
  }
  void operator()(const EditFeatures& features) const {
    v1::DictionaryEdit* edit = message->mutable_dictionary();
    *edit->mutable_dictionary() = ToMessage(features.dictionary);
    for (const FeatureChange& change : features.changes) {
      v1::FeatureEdit* added = edit->add_edits();
      added->set_feature(change.feature);
      std::visit(FeatureWriter{added}, change.change);
    }
    edit->set_drop_error(features.drop_error);
    edit->set_encode_hook(features.encode_hook);
  }
};

}  // namespace

v1::Dictionary ToMessage(const Dictionary& dictionary) {
  v1::Dictionary message;
  message.set_name(dictionary.name);
  message.set_activation(dictionary.activation);
  message.set_k(dictionary.k);
  message.set_subtract_decoder_bias(dictionary.subtract_decoder_bias);
  return message;
}

v1::Intervention ToMessage(const Edit& edit) {
  v1::Intervention message;
  message.set_hook_points(edit.hook_points);
  if (auto selection = ToMessage(edit.selection)) {
    *message.mutable_selection() = *std::move(selection);
  }
  message.set_when(edit.when);
  std::visit(ChangeWriter{&message}, edit.change);
  return message;
}

}  // namespace phitap::client
