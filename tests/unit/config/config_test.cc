#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "server/core_count.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ConfigOutcome Read(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "phitapd");
  return ReadServerConfig(static_cast<int>(arguments.size()), arguments.data());
}

TEST(ServerConfig, TakesItsDefaults) {
  const ConfigOutcome outcome = Read({"--model", "phi=/models/phi"});
  ASSERT_TRUE(outcome.config.has_value()) << outcome.text;
  const ServerConfig& config = *outcome.config;
  ASSERT_EQ(config.models.size(), 1u);
  EXPECT_EQ(config.models[0].name, "phi");
  EXPECT_EQ(config.models[0].path, "/models/phi");
  EXPECT_EQ(config.rpc.listen, "127.0.0.1:7777");
  EXPECT_EQ(config.rpc.max_request_bytes, 64 << 20);
  EXPECT_FALSE(config.dtype.has_value());
  EXPECT_EQ(config.weights, WeightStorage::kMap);
  EXPECT_EQ(config.packing, std::nullopt);
  EXPECT_EQ(config.threads, PhysicalCoreCount());
  EXPECT_EQ(config.schedule.max_wave_tokens, 8192);
  EXPECT_EQ(config.limits.default_deadline, absl::Minutes(10));
  EXPECT_EQ(config.schedule.memory.max_undelivered_bytes, 0);
  EXPECT_EQ(config.schedule.memory.max_root_bytes, 0);
  EXPECT_EQ(config.tensors.max_bytes, 0);
  EXPECT_EQ(config.schedule.sharing, CallerSharing::kWithinCaller);
  EXPECT_EQ(config.limits.plan.max_response_bytes, int64_t{4} << 30);
}

TEST(ServerConfig, NeedsNoModelWhereThereIsAModelFolder) {
  const ConfigOutcome outcome =
      Read({"--model-folder", "/tmp", "--max-model-bytes", "3GiB",
            "--drain-grace", "10s", "--drain-timeout", "5m"});
  ASSERT_TRUE(outcome.config.has_value()) << outcome.text;
  EXPECT_EQ(outcome.config->model_folder, "/tmp");
  EXPECT_EQ(outcome.config->max_model_bytes, int64_t{3} << 30);
  EXPECT_EQ(outcome.config->stop.grace, absl::Seconds(10));
  EXPECT_EQ(outcome.config->stop.drain_timeout, absl::Minutes(5));
  EXPECT_EQ(Read({"--model", "a=/x"}).config->stop.grace, absl::ZeroDuration());
}

TEST(ServerConfig, TakesEveryFlag) {
  const ConfigOutcome outcome = Read({"--model=a=/x=y",
                                      "--model",
                                      "b=/b",
                                      "--listen",
                                      "unix:/tmp/s",
                                      "--address-file",
                                      "/tmp/p",
                                      "--device",
                                      "cpu",
                                      "--dtype",
                                      "float16",
                                      "--pack-weights",
                                      "off",
                                      "--weights",
                                      "copy",
                                      "--threads",
                                      "3",
                                      "--log-level",
                                      "debug",
                                      "--log-format",
                                      "json",
                                      "--max-wave-tokens",
                                      "100",
                                      "--max-queued-requests",
                                      "7",
                                      "--max-run-tokens",
                                      "50",
                                      "--max-request-bytes",
                                      "1MiB",
                                      "--max-response-bytes",
                                      "2.5 KiB",
                                      "--max-undelivered-bytes",
                                      "9000",
                                      "--max-caller-bytes",
                                      "8000",
                                      "--max-workspace-bytes",
                                      "7000",
                                      "--max-wave-bytes",
                                      "6000",
                                      "--max-root-bytes",
                                      "5000",
                                      "--max-caller-requests",
                                      "3",
                                      "--share-across-callers",
                                      "on",
                                      "--state-dir",
                                      "/var/lib/phitap",
                                      "--max-working-bytes",
                                      "3MiB",
                                      "--max-tensor-bytes",
                                      "5KiB",
                                      "--max-sweep-cells",
                                      "11",
                                      "--max-generated-tokens",
                                      "12",
                                      "--default-deadline",
                                      "90s",
                                      "--max-deadline",
                                      "1h30m",
                                      "--stall-timeout",
                                      "500ms"});
  ASSERT_TRUE(outcome.config.has_value()) << outcome.text;
  const ServerConfig& config = *outcome.config;
  ASSERT_EQ(config.models.size(), 2u);
  EXPECT_EQ(config.models[0].path, "/x=y");
  EXPECT_EQ(config.models[1].name, "b");
  EXPECT_EQ(config.rpc.listen, "unix:/tmp/s");
  EXPECT_EQ(config.address_file, "/tmp/p");
  EXPECT_EQ(config.dtype, DType::kF16);
  EXPECT_EQ(config.weights, WeightStorage::kCopy);
  EXPECT_EQ(config.packing, WeightPacking::kNone);
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.log.level, LogLevel::kDebug);
  EXPECT_EQ(config.log.format, LogFormat::kJson);
  EXPECT_EQ(config.schedule.max_wave_tokens, 100);
  EXPECT_EQ(config.schedule.queue.max_requests, 7);
  EXPECT_EQ(config.limits.plan.max_run_tokens, 50);
  EXPECT_EQ(config.rpc.max_request_bytes, 1 << 20);
  EXPECT_EQ(config.limits.plan.max_response_bytes, 2560);
  EXPECT_EQ(config.schedule.memory.max_undelivered_bytes, 9000);
  EXPECT_EQ(config.schedule.memory.max_caller_bytes, 8000);
  EXPECT_EQ(config.schedule.memory.max_workspace_bytes, 7000);
  EXPECT_EQ(config.schedule.memory.max_wave_bytes, 6000);
  EXPECT_EQ(config.schedule.memory.max_root_bytes, 5000);
  EXPECT_EQ(config.schedule.queue.max_caller_requests, 3);
  EXPECT_EQ(config.schedule.sharing, CallerSharing::kAcrossCallers);
  EXPECT_EQ(config.tensors.state_dir, "/var/lib/phitap");
  EXPECT_EQ(config.limits.plan.max_working_bytes, 3 << 20);
  EXPECT_EQ(config.tensors.max_bytes, 5 << 10);
  EXPECT_EQ(config.limits.max_upload_bytes, 5 << 10);
  EXPECT_EQ(config.limits.plan.max_sweep_cells, 11);
  EXPECT_EQ(config.limits.plan.max_generated_tokens, 12);
  EXPECT_EQ(config.limits.default_deadline, absl::Seconds(90));
  EXPECT_EQ(config.limits.max_deadline, absl::Minutes(90));
  EXPECT_EQ(config.limits.stall_timeout, absl::Milliseconds(500));
}

TEST(ServerConfig, ReadsAFileAndLetsTheCommandLineWin) {
  const std::string path = ::testing::TempDir() + "/phitapd.toml";
  std::ofstream(path) << "model = [\"a=/a\", \"b=/b\"]\nthreads = 5\n"
                         "stall-timeout = \"7s\"\nlog-format = \"json\"\n";
  const ConfigOutcome outcome =
      Read({"--config", path.c_str(), "--threads", "6"});
  ASSERT_TRUE(outcome.config.has_value()) << outcome.text;
  EXPECT_EQ(outcome.config->models.size(), 2u);
  EXPECT_EQ(outcome.config->threads, 6);
  EXPECT_EQ(outcome.config->limits.stall_timeout, absl::Seconds(7));
  EXPECT_EQ(outcome.config->log.format, LogFormat::kJson);
}

TEST(ServerConfig, RefusesAFileWithAKeyThatIsNoFlag) {
  const std::string path = ::testing::TempDir() + "/wrong.toml";
  std::ofstream(path) << "model = \"a=/a\"\nthreats = 5\n";
  const ConfigOutcome outcome = Read({"--config", path.c_str()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.text, HasSubstr("threats"));
}

TEST(ServerConfig, ExposesMetricsOnlyWhereItIsTold) {
  EXPECT_EQ(Read({"--model=a=/x"}).config->metrics_listen, "");
  EXPECT_EQ(
      Read({"--model=a=/x", "--metrics-listen", "off"}).config->metrics_listen,
      "");
  EXPECT_EQ(Read({"--model=a=/x", "--metrics-listen", "[::1]:9464"})
                .config->metrics_listen,
            "[::1]:9464");
}

TEST(ServerConfig, PrintsHelpAndVersion) {
  const ConfigOutcome help = Read({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.text,
              AllOf(HasSubstr("--stall-timeout"), HasSubstr("Examples:")));
  const ConfigOutcome version = Read({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.text,
              AllOf(::testing::StartsWith("phitapd "), HasSubstr(" (commit "),
                    HasSubstr("\nlibtorch 2."), HasSubstr("\ngRPC 1.")));
}

struct WrongFlag {
  std::string name;
  std::vector<const char*> arguments;
  // What the one line of error says.
  std::string says;
};

class WrongFlags : public ::testing::TestWithParam<WrongFlag> {};

TEST_P(WrongFlags, AreRefusedWithOneClearError) {
  const ConfigOutcome outcome = Read(GetParam().arguments);
  EXPECT_FALSE(outcome.config.has_value());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.text, HasSubstr(GetParam().says));
  EXPECT_EQ(outcome.text.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    ServerConfig, WrongFlags,
    ::testing::ValuesIn(std::vector<WrongFlag>{
        {"NoModel", {}, "--model: none given; valid: NAME=PATH"},
        {"ModelFolderThatIsNone",
         {"--model-folder", "/nowhere"},
         "--model-folder /nowhere: "},
        {"NegativeGrace",
         {"--model", "a=/x", "--drain-grace", "-1s"},
         "--drain-grace: \"-1s\""},
        {"NoDrainTimeout",
         {"--model", "a=/x", "--drain-timeout", "0s"},
         "--drain-timeout: \"0s\""},
        {"ModelWithoutName",
         {"--model", "/models/phi"},
         "--model: \"/models/phi\"; valid: NAME=PATH"},
        {"ModelTwice",
         {"--model", "a=/x", "--model", "a=/y"},
         "the name \"a\" is used twice"},
        {"ListenWithoutPort",
         {"--model", "a=/x", "--listen", "localhost"},
         "--listen: \"localhost\"; valid: HOST:PORT"},
        {"ListenOnALargePort",
         {"--model", "a=/x", "--listen", "[::1]:65536"},
         "--listen: \"[::1]:65536\""},
        {"MetricsOnAUnixSocket",
         {"--model", "a=/x", "--metrics-listen", "unix:/run/m"},
         "--metrics-listen: \"unix:/run/m\"; valid: HOST:PORT with port 0 (a "
         "free one) to 65535, or off"},
        {"Cuda",
         {"--model", "a=/x", "--device", "cuda"},
         "--device: \"cuda\": this version computes on the CPU only"},
        {"Device",
         {"--model", "a=/x", "--device", "tpu"},
         "--device: \"tpu\"; valid: cpu"},
        {"Dtype",
         {"--model", "a=/x", "--dtype", "int8"},
         "--dtype: \"int8\"; valid: auto, float32, float16, bfloat16"},
        {"Weights",
         {"--model", "a=/x", "--weights", "mmap"},
         "--weights: \"mmap\"; valid: map, copy"},
        {"PackWeights",
         {"--model", "a=/x", "--pack-weights", "yes"},
         "--pack-weights: \"yes\"; valid: auto, on, off"},
        {"NoThreads",
         {"--model", "a=/x", "--threads", "0"},
         "--threads: \"0\"; valid: 1 to 1024"},
        {"ThreadsInWords",
         {"--model", "a=/x", "--threads", "two"},
         "--threads: \"two\""},
        {"LogLevel",
         {"--model", "a=/x", "--log-level", "loud"},
         "--log-level: \"loud\"; valid: debug, info, warning, error"},
        {"LogFormat",
         {"--model", "a=/x", "--log-format", "xml"},
         "--log-format: \"xml\"; valid: text, json"},
        {"LogPrompts",
         {"--model", "a=/x", "--log-prompts", "yes"},
         "--log-prompts: \"yes\"; valid: on, off"},
        {"SizeUnit",
         {"--model", "a=/x", "--max-request-bytes", "5 apples"},
         "--max-request-bytes: \"5 apples\"; valid: 1 to 2147483647 bytes"},
        {"SizeTooLarge",
         {"--model", "a=/x", "--max-request-bytes", "4GiB"},
         "--max-request-bytes: \"4GiB\""},
        {"DurationUnit",
         {"--model", "a=/x", "--stall-timeout", "60"},
         "--stall-timeout: \"60\"; valid: a positive duration"},
        {"DurationNegative",
         {"--model", "a=/x", "--max-deadline=-1s"},
         "--max-deadline: \"-1s\""},
        {"OthersWithoutTls",
         {"--model", "a=/x", "--listen", "0.0.0.0:7777"},
         "--listen: 0.0.0.0:7777 can be reached from other machines"},
        {"KeyWithoutCertificate",
         {"--model", "a=/x", "--tls-key", "k"},
         "--tls-cert: none given"},
        {"CertificateWithoutKey",
         {"--model", "a=/x", "--tls-cert", "c"},
         "--tls-key: none given"},
        {"ClientsWithoutTls",
         {"--model", "a=/x", "--tls-client-ca", "c"},
         "--tls-client-ca: clients show certificates on encrypted"},
        {"Role",
         {"--model", "a=/x", "--anonymous-roles", "trace,root"},
         "--anonymous-roles: \"trace,root\"; valid: none, or some of trace"},
        {"Misspelt",
         {"--model", "a=/x", "--treads", "2"},
         "--treads: no such flag; valid: --threads"},
        {"MissingValue", {"--model"}, "--model"},
        {"MissingFile",
         {"--config", "/no/such/file.toml"},
         "/no/such/file.toml"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ServerConfig, LetsNobodyInWithoutANameWhereNamesAreKnown) {
  const auto roles = [](std::vector<const char*> more) {
    more.insert(more.begin(), "--model=a=/x");
    return *Read(more).config->anonymous_roles;
  };
  EXPECT_EQ(roles({}), (std::set<Role>{Role::kTrace, Role::kTensors}));
  EXPECT_EQ(roles({"--tokens", "t"}), std::set<Role>());
  EXPECT_EQ(roles({"--tokens", "t", "--anonymous-roles", "trace"}),
            std::set<Role>{Role::kTrace});
  EXPECT_EQ(roles({"--anonymous-roles", "none"}), std::set<Role>());
}

TEST(ServerConfig, ListensToOtherMachinesWithTlsOrWhenToldTo) {
  const ConfigOutcome encrypted = Read({"--model=a=/x", "--listen", "0.0.0.0:1",
                                        "--tls-cert", "c", "--tls-key", "k"});
  ASSERT_TRUE(encrypted.config.has_value()) << encrypted.text;
  EXPECT_EQ(encrypted.config->rpc.tls.client_certificates,
            ClientCertificates::kNone);
  EXPECT_TRUE(
      Read({"--model=a=/x", "--listen", "0.0.0.0:1", "--insecure-listen", "on"})
          .config.has_value());
  const ConfigOutcome mutual = Read({"--model=a=/x", "--tls-cert", "c",
                                     "--tls-key", "k", "--tls-client-ca", "a"});
  ASSERT_TRUE(mutual.config.has_value()) << mutual.text;
  EXPECT_EQ(mutual.config->rpc.tls.client_certificates,
            ClientCertificates::kRequire);
}

TEST(ReachableFromElsewhere, TellsLoopbackFromOtherAddresses) {
  EXPECT_FALSE(ReachableFromElsewhere("127.0.0.1:0"));
  EXPECT_FALSE(ReachableFromElsewhere("localhost:7777"));
  EXPECT_FALSE(ReachableFromElsewhere("[::1]:7777"));
  EXPECT_FALSE(ReachableFromElsewhere("unix:/run/phitap.sock"));
  EXPECT_TRUE(ReachableFromElsewhere("0.0.0.0:7777"));
  EXPECT_TRUE(ReachableFromElsewhere("[::]:7777"));
}

}  // namespace
}  // namespace phitap
