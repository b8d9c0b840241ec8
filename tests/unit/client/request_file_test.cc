#include "client/cli/request_file.h"

#include <unistd.h>

#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/unit/client/proto_matchers.h"

namespace phitap::cli {
namespace {

using testing::HasSubstr;

// The request in a file of this text.
absl::StatusOr<v1::TraceRequest> Read(const std::string& text) {
  const std::string path =
      testing::TempDir() + "/request_file." + std::to_string(getpid());
  std::ofstream(path) << text;
  absl::StatusOr<v1::TraceRequest> request = ReadRequestFile(path);
  unlink(path.c_str());
  return request;
}

TEST(ReadRequestFile, TakesBothSpellingsOfFields) {
  const absl::StatusOr<v1::TraceRequest> request =
      Read(R"({"runs": [{"prompt": {"text": "Hi"}, "interventions": [
                {"hook_points": "x", "set": {"value": {"number": 0}}}]}],
               "captures": [{"hookPoints": "logits"}]})");
  ASSERT_THAT(request, IsOk());
  EXPECT_THAT(*request, EqualsProto(R"pb(
    runs {
      prompt { text: "Hi" }
      interventions {
        hook_points: "x"
        set { value { number: 0 } }
      }
    }
    captures { hook_points: "logits" }
  )pb"));
}

TEST(ReadRequestFile, RefusesFieldsThatItDoesNotKnow) {
  EXPECT_THAT(Read(R"({"rums": []})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rums")));
}

TEST(ReadRequestFile, SaysWhereThereIsNoFile) {
  EXPECT_THAT(ReadRequestFile("/nowhere.json"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot read /nowhere.json")));
}

}  // namespace
}  // namespace phitap::cli
