#include "tests/integration/random_request.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <iterator>
#include <string>
#include <vector>

namespace phitap {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

constexpr int kMaxDepth = 6;

int Below(std::mt19937& random, int count) {
  return static_cast<int>(random() % count);
}

template <typename Value>
const Value& OneOf(std::mt19937& random, const std::vector<Value>& values) {
  return values[random() % values.size()];
}

std::string RandomName(const FieldDescriptor& field, std::mt19937& random) {
  static const std::vector<std::string> hooks = {
      "layers.0.layer_output",
      "layers.1.layer_output",
      "layers.1.mlp_output",
      "layers.0.attention_output",
      "layers.1.mlp_neurons",
      "layers.*.layer_output",
      "layers.1.attention_scores",
      "layers.0.attention_probabilities",
      "layers.0.attention_queries",
      "layers.1.attention_values",
      "token_embeddings",
      "final_norm_output",
      "logits",
      "input_ids",
      "layers.9.layer_output",
      "mlp_input"};
  static const std::vector<std::string> names = {"a", "b", "c", "n", "", "x"};
  const bool hook = field.name().find("hook") != std::string::npos;
  return OneOf(random, hook ? hooks : names);
}

double RandomNumber(std::mt19937& random) {
  static const std::vector<double> numbers = {0,    1,   -1,   0.5, 2,
                                              1e30, -3., 1e-9, 10};
  return OneOf(random, numbers);
}

// Mostly small, so that most answers are.
int RandomInteger(std::mt19937& random) {
  static const std::vector<int> integers = {0,  1,  2, 3,  1, 2,
                                            -1, -2, 4, 95, 96};
  return OneOf(random, integers);
}

void Fill(Message& message, int depth, std::mt19937& random);

// Sets a field, or adds to it.
void FillField(Message& message, const FieldDescriptor& field, int depth,
               std::mt19937& random) {
  const Reflection& reflection = *message.GetReflection();
  const bool repeated = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(*(repeated ? reflection.AddMessage(&message, &field)
                             : reflection.MutableMessage(&message, &field)),
                  depth + 1, random);
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = field.type() == FieldDescriptor::TYPE_BYTES
                                   ? std::string(4 * Below(random, 4), '\x3F')
                                   : RandomName(field, random);
      return repeated ? reflection.AddString(&message, &field, text)
                      : reflection.SetString(&message, &field, text);
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int value =
          field.enum_type()
              ->value(Below(random, field.enum_type()->value_count()))
              ->number();
      return repeated ? reflection.AddEnumValue(&message, &field, value)
                      : reflection.SetEnumValue(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, Below(random, 2) == 1);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return repeated
                 ? reflection.AddDouble(&message, &field, RandomNumber(random))
                 : reflection.SetDouble(&message, &field, RandomNumber(random));
    case FieldDescriptor::CPPTYPE_INT32:
      return repeated
                 ? reflection.AddInt32(&message, &field, RandomInteger(random))
                 : reflection.SetInt32(&message, &field, RandomInteger(random));
    case FieldDescriptor::CPPTYPE_INT64:
      return repeated
                 ? reflection.AddInt64(&message, &field, RandomInteger(random))
                 : reflection.SetInt64(&message, &field, RandomInteger(random));
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, random());
    default:
      return;
  }
}

// One member of each oneof, and each other field now and then.
void Fill(Message& message, int depth, std::mt19937& random) {
  if (depth > kMaxDepth) return;
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    const OneofDescriptor& oneof = *type.oneof_decl(i);
    FillField(message, *oneof.field(Below(random, oneof.field_count())), depth,
              random);
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.real_containing_oneof() != nullptr || field.is_map()) continue;
    const bool names_a_place =
        field.name().find("hook") != std::string::npos || field.name() == "run";
    if (Below(random, names_a_place ? 8 : 3) != 0 && !names_a_place) continue;
    FillField(message, field, depth, random);
  }
}

void AddRunTo(v1::TraceRequest& request, const std::string& label, int id,
              std::mt19937& random) {
  v1::Run& run = *request.add_runs();
  run.set_label(label);
  for (int i = 0; i < 4; ++i)
    run.mutable_prompt()->mutable_tokens()->add_ids(id + i);
  if (Below(random, 4) == 0) {
    run.mutable_generation()->set_max_tokens(1 + Below(random, 4));
    run.mutable_generation()->set_temperature(Below(random, 2));
  }
}

// Edits that fit every run.
constexpr const char* kEdits[] = {
    R"(hook_points: "layers.1.layer_output" skip {})",
    R"(hook_points: "layers.0.mlp_output" scale { value { number: 0.5 } })",
    R"(hook_points: "layers.*.layer_output" noise { scale: 0.1 seed: 3 })",
    R"(hook_points: "layers.1.layer_output" selection { positions { indices: -1 } }
       set { value { run { run: "b" } } })",
    R"(hook_points: "layers.1.attention_scores"
       selection { queries { indices: 3 } keys { indices: 0 } } knockout {})",
    R"(hook_points: "layers.1.attention_queries"
       selection { heads { indices: 0 } } clamp { low: -1 high: 1 })",
    R"(hook_points: "layers.0.layer_output" add { value { constant: "c" } })",
    R"(hook_points: "layers.1.layer_output" set { value { node: "n" } })",
    R"(hook_points: "logits" selection { features { indices: 2 } }
       add { value { number: 3 } scale: -1 })"};

// What else fits.
constexpr const char* kRest[] = {
    R"(captures { label: "n" node: "n" })",
    R"(captures { label: "t" hook_points: "layers.1.layer_output" runs: "a"
                  tensor_name: "x" })",
    R"(captures { label: "l" hook_points: "layers.*.layer_output"
                  read_time: READ_TIME_BEFORE reduction { norm {} } })",
    R"(gradients { of { run: "a" logit { token_id: 2 } }
                   hook_points: "layers.0.layer_output" })",
    R"(gradients { of { run: "b" kl { from_run: "a" } }
                   hook_points: "layers.1.mlp_output" })",
    R"(sweeps { run: "a" interventions { hook_points: "layers.*.layer_output"
                set { value { run { run: "b" } } } }
                axes { layers {} } axes { positions {} }
                metrics { probability { token_id: 1 } } })",
    R"(options { numerics: NUMERICS_TRANSFORMERS })",
    R"(options { attention: ATTENTION_EAGER isolate: true })",
    R"(program { nodes { name: "s" inputs: "n" softmax {} } }
       captures { label: "s" node: "s" })"};

template <typename MessageType>
void MergeText(const char* text, MessageType& message) {
  MessageType more;
  google::protobuf::TextFormat::ParseFromString(text, &more);
  message.MergeFrom(more);
}

// One to three things that fit by themselves, if not always together.
void AddSense(v1::TraceRequest& request, std::mt19937& random) {
  for (int count = Below(random, 3); count >= 0; --count) {
    if (Below(random, 2) == 0) {
      MergeText(kEdits[random() % std::size(kEdits)],
                *request.mutable_runs(0)->add_interventions());
    } else {
      MergeText(kRest[random() % std::size(kRest)], request);
    }
  }
}

// Fields at random.
void AddNonsense(v1::TraceRequest& request, std::mt19937& random) {
  for (int count = Below(random, 2); count >= 0; --count) {
    switch (Below(random, 6)) {
      case 0:
      case 1:
        Fill(*request.mutable_runs(Below(random, 2))->add_interventions(), 0,
             random);
        break;
      case 2:
        Fill(*request.add_captures(), 0, random);
        break;
      case 3:
        Fill(*request.mutable_program()->add_nodes(), 0, random);
        break;
      case 4:
        Fill(*request.add_gradients(), 0, random);
        break;
      case 5:
        Fill(*request.add_sweeps(), 0, random);
        break;
    }
  }
  if (Below(random, 4) == 0) Fill(*request.mutable_options(), 0, random);
}

}  // namespace

v1::TraceRequest RandomRequest(std::mt19937& random) {
  v1::TraceRequest request;
  request.set_model("tiny");
  AddRunTo(request, "a", 1, random);
  AddRunTo(request, "b", 5, random);
  v1::Tensor& constant = (*request.mutable_constants())["c"];
  constant.set_dtype(v1::DATA_TYPE_F32);
  constant.set_data(std::string(4, '\x3F'));
  v1::Node& node = *request.mutable_program()->add_nodes();
  node.set_name("n");
  node.mutable_read()->set_run("a");
  node.mutable_read()->set_hook_point("layers.0.layer_output");
  request.add_captures()->set_hook_points("logits");

  AddSense(request, random);
  if (Below(random, 2) == 0) AddNonsense(request, random);
  return request;
}

}  // namespace phitap
