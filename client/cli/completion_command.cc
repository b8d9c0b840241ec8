#include <map>
#include <memory>
#include <string>

#include "client/cli/commands.h"

namespace phitap::cli {
namespace {

// The scripts ask the server for names as the user types; where none answers
// they offer nothing. `=` and `@` end a word in bash, so that a capture's hook
// point and its options are completed one after the other.
constexpr char kBash[] =
    R"sh(# phitap completion for bash: eval "$(phitap completion bash)"
_phitap_offer() {
  local word current="$1"
  shift
  for word in "$@"; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$word")
  done
}
_phitap_hooks() {
  local name current="$1" layers=""
  [[ $current =~ ^layers\.([^.]+)\. ]] && layers="${BASH_REMATCH[1]}"
  while IFS= read -r name; do
    [[ -n $layers ]] && name="${name/'*'/$layers}"
    [[ $name == "$current"* ]] && COMPREPLY+=("$name")
  done < <(phitap hooks --names --timeout 2 2>/dev/null)
}
_phitap() {
  local current="${COMP_WORDS[COMP_CWORD]}" i=$COMP_CWORD flag=""
  COMPREPLY=()
  compopt -o nospace 2>/dev/null
  if ((COMP_CWORD == 1)); then
    _phitap_offer "$current" models hooks tokenize detokenize plan trace completion
    compopt +o nospace 2>/dev/null
    return
  fi
  [[ $current == "=" || $current == "@" ]] && { flag="$current"; current=""; }
  while ((i > 1)) && [[ -z $flag || $flag == "=" || $flag == "@" ]]; do
    ((i--))
    case "${COMP_WORDS[i]}" in
      @) [[ -z $flag ]] && flag="@" ;;
      =) [[ -z $flag ]] && flag="=" ;;
      -*) flag="${COMP_WORDS[i]}$flag" ;;
      *) [[ -z $flag ]] && { flag="none"; } ;;
    esac
  done
  case "$flag" in
    --capture@ | -c@)
      _phitap_offer "$current" positions= token-ids= heads= features= queries= keys= reduce= lens= lens-normed= dtype= runs= ;;
    --capture* | -c*) _phitap_hooks "$current" ;;
    --model* | -m*)
      mapfile -t names < <(phitap models --names --timeout 2 2>/dev/null)
      _phitap_offer "$current" "${names[@]}" ;;
    --reduce*) _phitap_offer "$current" mean norm topk: ;;
    --dtype*) _phitap_offer "$current" f32 f16 bf16 ;;
    --numerics*) _phitap_offer "$current" causal transformers ;;
    --attention*) _phitap_offer "$current" sdpa eager ;;
    --out* | -o* | --chat*) compopt -o default +o nospace 2>/dev/null ;;
    *)
      if [[ $current == -* ]]; then
        _phitap_offer "$current" --server --json --timeout --color --help --model --prompt --tokens --chat --capture --positions --token-ids --heads --features --queries --keys --reduce --lens --lens-normed --dtype --runs --numerics --attention --isolate --out --values --names --printout
      elif [[ ${COMP_WORDS[1]} == hooks ]]; then
        mapfile -t names < <(phitap models --names --timeout 2 2>/dev/null)
        _phitap_offer "$current" "${names[@]}"
      elif [[ ${COMP_WORDS[1]} == completion ]]; then
        _phitap_offer "$current" bash zsh fish
      fi ;;
  esac
}
complete -F _phitap phitap
)sh";

constexpr char kZsh[] =
    R"sh(# phitap completion for zsh: eval "$(phitap completion zsh)"
_phitap_hooks() {
  local -a names
  local layers=""
  names=(${(f)"$(phitap hooks --names --timeout 2 2>/dev/null)"})
  # After NAME= and before @, the hook point itself.
  compset -P '*='
  [[ $PREFIX =~ '^layers\.([^.]+)\.' ]] && layers="$match[1]"
  [[ -n $layers ]] && names=("${names[@]/\*/$layers}")
  compadd -S '' -a names
}
_phitap_models() {
  local -a names
  names=(${(f)"$(phitap models --names --timeout 2 2>/dev/null)"})
  compadd -a names
}
_phitap() {
  _arguments \
    '1:command:(models hooks tokenize detokenize plan trace completion)' \
    '*'{-c,--capture}'[a value to read]:capture:_phitap_hooks' \
    '*'{-p,--prompt}'[a prompt]:text:' \
    '*'{-t,--tokens}'[token ids]:ids:' \
    '*--chat[a conversation]:file:_files' \
    {-m,--model}'[model]:model:_phitap_models' \
    {-o,--out}'[safetensors file]:file:_files' \
    '--server[address]:address:' \
    '--timeout[seconds]:seconds:' \
    '--color[colour]:when:(auto always never)' \
    '--json[one JSON document]' \
    '--positions[positions]:set:' '--token-ids[token ids]:ids:' \
    '--heads[heads]:set:' '--features[columns]:set:' \
    '--queries[queries]:set:' '--keys[keys]:set:' \
    '--reduce[reduction]:how:(mean norm topk\:)' \
    '--lens[logit lens]:k:' '--lens-normed[logit lens]:k:' \
    '--dtype[type]:type:(f32 f16 bf16)' '--runs[runs]:labels:' \
    '--numerics[whose bits]:whose:(causal transformers)' \
    '--attention[attention]:how:(sdpa eager)' \
    '--isolate[share no batch]' '--values[numbers too]' \
    '--names[names only]' '--printout[module tree]' \
    '*:argument:_phitap_models'
}
compdef _phitap phitap
)sh";

constexpr char kFish[] =
    R"sh(# phitap completion for fish: phitap completion fish | source
function __phitap_hooks
  set -l layers (string match -r '^layers\.([^.]+)\.' -- (commandline -ct))[2]
  for name in (phitap hooks --names --timeout 2 2>/dev/null)
    test -n "$layers"; and set name (string replace '*' $layers -- $name)
    echo $name
  end
end
function __phitap_models
  phitap models --names --timeout 2 2>/dev/null
end
complete -c phitap -f
complete -c phitap -n __fish_use_subcommand -a 'models hooks tokenize detokenize plan trace completion'
complete -c phitap -s c -l capture -x -a '(__phitap_hooks)' -d 'A value to read'
complete -c phitap -s p -l prompt -x -d 'A prompt'
complete -c phitap -s t -l tokens -x -d 'Token ids'
complete -c phitap -l chat -r -F -d 'A conversation'
complete -c phitap -s m -l model -x -a '(__phitap_models)' -d 'Model'
complete -c phitap -s o -l out -r -F -d 'Safetensors file'
complete -c phitap -l server -x -d 'Address of the server'
complete -c phitap -l timeout -x -d 'Seconds'
complete -c phitap -l color -x -a 'auto always never'
complete -c phitap -l json -d 'One JSON document'
complete -c phitap -l reduce -x -a 'mean norm topk:'
complete -c phitap -l dtype -x -a 'f32 f16 bf16'
complete -c phitap -l numerics -x -a 'causal transformers'
complete -c phitap -l attention -x -a 'sdpa eager'
for flag in positions token-ids heads features queries keys lens lens-normed runs
  complete -c phitap -l $flag -x
end
for flag in isolate values names printout
  complete -c phitap -l $flag
end
complete -c phitap -n '__fish_seen_subcommand_from hooks' -a '(__phitap_models)'
complete -c phitap -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
)sh";

const std::map<std::string, std::string>& Scripts() {
  static const auto* const kScripts = new std::map<std::string, std::string>{
      {"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
  return *kScripts;
}

}  // namespace

void AddCompletionCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "completion", "Prints a completion script, hook points included");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n  eval \"$(phitap completion bash)\"\n"
      "  phitap completion fish | source");
  command->callback(
      [shell, invocation] { invocation->SetText(Scripts().at(*shell)); });
}

}  // namespace phitap::cli
