#include "client/cli/edit_text.h"

#include <unistd.h>

#include "client/cpp/safetensors_writer.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/proto_matchers.h"

namespace phitap::cli {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<v1::Intervention> Parse(const std::string& text) {
  FileTensors files;
  absl::StatusOr<LabelledEdit> parsed = ParseEdit(text, &files);
  if (!parsed.ok()) return parsed.status();
  return client::ToMessage(parsed->edit);
}

// What is typed, and the message without its hook points `x`.
struct Form {
  std::string text;
  std::string message;
};

const Form kForms[] = {
    {"zero", "set { value { number: 0 } }"},
    {"set 0.5", "set { value { number: 0.5 } }"},
    {"set run=clean", "set { value { run { run: 'clean' } } }"},
    {"set run=clean:layers.3.layer_output@positions=4@read=before",
     "set { value { run { run: 'clean' hook_point: 'layers.3.layer_output' "
     "selection { positions { indices: 4 } } read_time: READ_TIME_BEFORE } } "
     "}"},
    {"set mean=a,b@over-positions",
     "set { value { mean_of_runs { runs: 'a' runs: 'b' over_positions: true } "
     "} }"},
    {"set tensor=joy", "set { value { tensor_name: 'joy' } }"},
    {"set node=n", "set { value { node: 'n' } }"},
    {"set constant=c", "set { value { constant: 'c' } }"},
    {"add tensor=joy scale=4", "add { value { tensor_name: 'joy' } scale: 4 }"},
    {"add tensor=joy", "add { value { tensor_name: 'joy' } }"},
    {"scale -2", "scale { value { number: -2 } }"},
    {"project-out tensor=joy keep=0.5",
     "project_out { direction { tensor_name: 'joy' } keep: 0.5 }"},
    {"clamp-projection tensor=joy low=-1 high=2",
     "clamp_projection { direction { tensor_name: 'joy' } low: -1 high: 2 }"},
    {"swap tensor=a to tensor=b both",
     "swap { from { tensor_name: 'a' } to { tensor_name: 'b' } both: true }"},
    {"clamp high=1", "clamp { high: 1 }"},
    {"noise 0.1 seed=3", "noise { scale: 0.1 seed: 3 }"},
    {"knockout", "knockout {}"},
    {"skip", "skip {}"},
    {"subspace run=clean basis tensor=r mask tensor=m",
     "subspace { basis { tensor_name: 'r' } source { run { run: 'clean' } } "
     "mask { tensor_name: 'm' } }"},
    {"features sae 1=4 2*=0 3+=-1 4=run:clean activation=top-k:8 "
     "encode=mlp_input subtract-decoder-bias drop-error",
     "dictionary { dictionary { name: 'sae' activation: "
     "DICTIONARY_ACTIVATION_TOP_K k: 8 subtract_decoder_bias: true } edits { "
     "feature: 1 set: 4 } edits { feature: 2 scale: 0 } edits { feature: 3 "
     "add: -1 } edits { feature: 4 from_run: 'clean' } drop_error: true "
     "encode_hook: 'mlp_input' }"},
    {"features sae 1=4 activation=jump-relu",
     "dictionary { dictionary { name: 'sae' activation: "
     "DICTIONARY_ACTIVATION_JUMP_RELU } edits { feature: 1 set: 4 } }"},
};

TEST(ParseEdit, ReadsEveryEdit) {
  for (const Form& form : kForms) {
    const absl::StatusOr<v1::Intervention> edit = Parse("x " + form.text);
    ASSERT_THAT(edit, IsOk()) << form.text;
    EXPECT_THAT(*edit, EqualsProto("hook_points: 'x' " + form.message));
  }
}

TEST(EditText, WritesWhatWasTyped) {
  for (const Form& form : kForms) {
    const std::string text = "x@heads=0,2@queries=-1 " + form.text + " when=g";
    const absl::StatusOr<v1::Intervention> edit = Parse(text);
    ASSERT_THAT(edit, IsOk());
    EXPECT_EQ(EditText(*edit), text);
  }
}

TEST(ParseEdit, ReadsRunsPlaceAndCondition) {
  FileTensors files;
  const absl::StatusOr<LabelledEdit> parsed = ParseEdit(
      "a,b:  layers.{0,5}.x@token-ids=7@steps=1:  zero when=gate", &files);
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->runs, ElementsAre("a", "b"));
  EXPECT_THAT(client::ToMessage(parsed->edit), EqualsProto(R"pb(
                hook_points: "layers.{0,5}.x"
                selection {
                  token_ids: 7
                  steps { ranges { start: 1 } }
                }
                when: "gate"
                set { value { number: 0 } }
              )pb"));
}

TEST(ParseEdit, NamesNoRunWhereTheTextDoesNot) {
  FileTensors files;
  EXPECT_THAT(ParseEdit("x@positions=1:3 zero", &files)->runs, IsEmpty());
}

TEST(ParseEdit, SendsATensorOfAFileOnce) {
  const std::string path =
      testing::TempDir() + "/edit_text." + std::to_string(getpid());
  const std::vector<float> values = {1, 2};
  ASSERT_THAT(
      client::WriteSafetensors(
          path,
          {{.name = "v",
            .value = CopyOf(
                DType::kF32, {2},
                {reinterpret_cast<const std::byte*>(values.data()), 8})}},
          {}),
      IsOk());
  FileTensors files;
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<LabelledEdit> parsed =
        ParseEdit("x add file=" + path + ":v", &files);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(EditText(client::ToMessage(parsed->edit)),
              "x add file=" + path + ":v");
  }
  ASSERT_EQ(files.size(), 1);
  EXPECT_THAT(files.begin()->second.shape, ElementsAre(2));
  unlink(path.c_str());
}

// What a text is refused with.
std::string Refusal(const std::string& text) {
  const absl::Status status = Parse(text).status();
  EXPECT_FALSE(status.ok()) << text;
  return std::string(status.message());
}

TEST(ParseEdit, PointsAtWhatIsWrong) {
  EXPECT_EQ(Refusal("layers.2.x zeroo"),
            "--intervene: `zeroo` is not an edit; valid: zero, set, add, "
            "scale, project-out, clamp-projection, swap, clamp, noise, "
            "knockout, skip, subspace, features\n"
            "  layers.2.x zeroo\n"
            "             ^^^^^");
  EXPECT_THAT(Refusal("x@positons=1 zero"),
              EndsWith("\n  x@positons=1 zero\n    ^^^^^^^^^^"));
  EXPECT_THAT(Refusal("x@positions=a zero"), HasSubstr("`a` is no integer"));
  EXPECT_THAT(Refusal("x set"), EndsWith("\n  x set\n       ^"));
  EXPECT_THAT(Refusal("x set rum=a"),
              EndsWith("\n  x set rum=a\n        ^^^^^"));
  EXPECT_THAT(Refusal("x set run=a@read=now"),
              HasSubstr("`now` is not valid; valid: before or after"));
  EXPECT_THAT(Refusal("x set run=a@over-positions"), HasSubstr("only a mean"));
  EXPECT_THAT(Refusal("x set nan"), HasSubstr("`nan` is not a number"));
  EXPECT_THAT(Refusal("x set tensor="), HasSubstr("a name is missing"));
  EXPECT_THAT(Refusal("x zero twice"), HasSubstr("`twice` is not part of it"));
  EXPECT_THAT(Refusal("x clamp"), HasSubstr("a bound is missing; valid: clamp "
                                            "[low=N] [high=N]"));
  EXPECT_THAT(Refusal("x clamp low=l"), HasSubstr("`l` is not a number"));
  EXPECT_THAT(Refusal("x swap tensor=a tensor=b"),
              HasSubstr("`tensor=b` is not `to`"));
  EXPECT_THAT(Refusal("x noise"), HasSubstr("a standard deviation is missing"));
  EXPECT_THAT(Refusal("x noise 1 seed=-1"), HasSubstr("`-1` is no seed"));
  EXPECT_THAT(Refusal("x features"), HasSubstr("a dictionary is missing"));
  EXPECT_THAT(Refusal("x features d"), HasSubstr("a feature is missing"));
  EXPECT_THAT(Refusal("x features d f=1"), HasSubstr("`f=1` changes no"));
  EXPECT_THAT(Refusal("x features d 1=1 activation=gelu"),
              HasSubstr("`gelu` is no activation"));
  EXPECT_THAT(Refusal("@positions=1 zero"), HasSubstr("hook point is missing"));
  EXPECT_THAT(Refusal(""), HasSubstr("a hook point is missing"));
  EXPECT_THAT(Refusal("x add file=/nowhere.safetensors"),
              HasSubstr("cannot read /nowhere.safetensors"));
}

}  // namespace
}  // namespace phitap::cli
