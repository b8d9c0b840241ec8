#include <map>
#include <memory>
#include <string>

#include "client/cli/commands.h"

namespace phitap::cli {
namespace {

// The scripts ask the server for names as the user types; where none answers
// they offer nothing.
constexpr char kBash[] =
    R"sh(# phitap completion for bash: eval "$(phitap completion bash)"
_phitap_ask() {
  phitap "$@" --names --timeout 2 2>/dev/null
}
# Whole words that a capture, or with `edit` the place of an intervention, may
# go on as.
_phitap_captures() {
  local word="$1" label="" layers="" name
  local options="positions token-ids heads features queries keys steps"
  [[ $2 == edit ]] || options+=" reduce lens lens-normed dtype runs read keep"
  if [[ $word == *@* ]]; then
    for name in $options; do
      echo "${word%@*}@$name="
    done
    return
  fi
  [[ $word == *=* ]] && label="${word%%=*}="
  [[ ${word#"$label"} =~ ^layers\.([^.]+)\. ]] && layers="${BASH_REMATCH[1]}"
  while IFS= read -r name; do
    [[ -n $layers ]] && name="${name/'*'/$layers}"
    echo "$label$name"
  done < <(_phitap_ask hooks)
}
_phitap_candidates() {
  local command="$1" flag="$2" word="$3"
  case "$flag" in
    -c | --capture) _phitap_captures "$word" ;;
    -i | --intervene) _phitap_captures "$word" edit ;;
    --edit) printf '%s\n' zero set add scale project-out clamp-projection swap clamp noise knockout skip subspace features run= mean= tensor= file= node= scale= keep= low= high= seed= when= ;;
    -m | --model) _phitap_ask models ;;
    --reduce) printf '%s\n' mean norm topk: ;;
    --dtype) printf '%s\n' f32 f16 bf16 ;;
    --numerics) printf '%s\n' causal transformers ;;
    --attention) printf '%s\n' sdpa eager ;;
    --color) printf '%s\n' auto always never ;;
    --longrope-cache) printf '%s\n' recompute keep ;;
    --read) printf '%s\n' before after ;;
    --axes) printf '%s\n' layers layers,positions layers,heads positions heads scales: ;;
    --metric) printf '%s\n' logit: logit-diff: prob: log-prob: kl: ;;
    -o | --out | --chat | --request) compgen -f -- "$word" ;;
    *)
      if [[ -z $command ]]; then
        printf '%s\n' models hooks tokenize detokenize plan trace sweep generate tensors health top drain log-level token completion
      elif [[ $word == -* ]]; then
        printf -- '--%s\n' server token-file tls ca cert key server-name json timeout color help model prompt tokens chat run capture intervene positions token-ids heads features queries keys steps reduce lens lens-normed dtype runs read numerics attention longrope-cache isolate priority hide position-ids request max-tokens temperature top-k top-p seed stop-ids ignore-stop-ids force no-compare axes metric raw out values names printout prefix once interval skip-special-tokens
      elif [[ $command == hooks ]]; then
        _phitap_ask models
      elif [[ $command == completion ]]; then
        printf '%s\n' bash zsh fish
      elif [[ $command == tensors ]]; then
        printf '%s\n' put delete
      fi ;;
  esac
}
_phitap() {
  local line="${COMP_LINE:0:COMP_POINT}" word flag quote="" skip=0 tail candidate words before=""
  word="${line##*[[:space:]]}"
  read -ra words <<<"${line%"$word"}"
  flag="${words[-1]}"
  [[ $word == --*=* ]] && { flag="${word%%=*}" word="${word#*=}"; }
  [[ $word == [\'\"]* ]] && { quote="${word:0:1}" word="${word:1}"; }
  # A quoted intervention is one word to bash, spaces included.
  if [[ $line =~ (-i|--intervene)[[:space:]=]+[\'\"]([^\'\"]*[[:space:]])([^\'\"[:space:]]*)$ ]]; then
    before="${BASH_REMATCH[2]}" word="${BASH_REMATCH[3]}" quote="'" flag=--edit
    [[ $before =~ ^[^:[:space:]]+:[[:space:]]+$ ]] && flag=--intervene
  fi
  # Outside quotes bash replaces only what follows the last `=` or `:`, or
  # starts at the last `@`.
  if [[ -z $quote ]]; then
    tail="${word##*[@=:]}"
    skip=$((${#word} - ${#tail}))
    ((skip > 0)) && [[ ${word:skip-1:1} == "@" ]] && ((skip--))
  fi
  COMPREPLY=()
  while IFS= read -r candidate; do
    [[ $candidate == "$word"* ]] && COMPREPLY+=("$before${candidate:skip}")
  done < <(_phitap_candidates "${words[1]}" "$flag" "$word")
  # More may follow these.
  [[ ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace 2>/dev/null
}
complete -F _phitap phitap
)sh";

constexpr char kZsh[] =
    R"sh(# phitap completion for zsh: eval "$(phitap completion zsh)"
_phitap_hooks() {
  local -a names
  if [[ $PREFIX == *@* ]]; then
    compset -P '*@'
    compadd -S '' positions= token-ids= heads= features= queries= keys= steps= reduce= lens= lens-normed= dtype= runs= read= keep=
    return
  fi
  compset -P '*='
  names=(${(f)"$(phitap hooks --names --timeout 2 2>/dev/null)"})
  [[ $PREFIX =~ '^layers\.([^.]+)\.' ]] && names=("${names[@]/\*/$match[1]}")
  compadd -S '' -a names
}
_phitap_models() {
  local -a names
  names=(${(f)"$(phitap models --names --timeout 2 2>/dev/null)"})
  compadd -a names
}
_phitap() {
  _arguments \
    '1:command:(models hooks tokenize detokenize plan trace sweep generate tensors health top drain log-level token completion)' \
    '*'{-c,--capture}'[a value to read]:capture:_phitap_hooks' \
    '*'{-i,--intervene}'[a change to make]:intervention:_phitap_hooks' \
    '*'{-r,--run}'[a labelled prompt]:label=text:' \
    '--request[a whole request as JSON]:file:_files' \
    {-n,--max-tokens}'[tokens to generate]:n:' \
    '--temperature[of samples]:t:' '--top-k[likeliest only]:k:' \
    '--top-p[likeliest only]:p:' '--seed[of samples]:n:' \
    '--stop-ids[tokens that end it]:ids:' \
    '--force[tokens to begin with]:ids:' \
    '--ignore-stop-ids[do not stop early]' \
    '--no-compare[only the steered text]' \
    '--axes[how cells differ]:axes:(layers layers,positions layers,heads)' \
    '*--metric[what to measure]:metric:(logit\: logit-diff\: prob\: log-prob\: kl\:)' \
    '--raw[the metric itself]' '--prefix[names that begin so]:prefix:' \
    '--steps[generation steps]:set:' \
    '--read[before or after]:when:(before after)' \
    '--longrope-cache[cache policy]:how:(recompute keep)' \
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
    '--isolate[share no batch]' '--priority[0 to 10]:priority:' \
    '--values[numbers too]' \
    '--hide[positions to hide]:set:' '--position-ids[rotary positions]:ids:' \
    '--skip-special-tokens[leave special tokens out]' \
    '--once[one look]' '--interval[between two looks]:seconds:' \
    '--names[names only]' '--printout[module tree]' \
    '*:argument:_phitap_models'
}
compdef _phitap phitap
)sh";

constexpr char kFish[] =
    R"sh(# phitap completion for fish: phitap completion fish | source
function __phitap_hooks
  set -l token (commandline -ct)
  if string match -q '*@*' -- $token
    set -l before (string replace -r '[^@]*$' '' -- $token)
    for option in positions token-ids heads features queries keys steps reduce lens lens-normed dtype runs read keep
      echo "$before$option="
    end
    return
  end
  set -l label (string match -r '^[^=]*=' -- $token)
  set -l layers (string match -r '^(?:[^=]*=)?layers\.([^.]+)\.' -- $token)[2]
  for name in (phitap hooks --names --timeout 2 2>/dev/null)
    test -n "$layers"; and set name (string replace '*' $layers -- $name)
    echo "$label$name"
  end
end
function __phitap_models
  phitap models --names --timeout 2 2>/dev/null
end
complete -c phitap -f
complete -c phitap -n __fish_use_subcommand -a 'models hooks tokenize detokenize plan trace sweep generate tensors health top drain log-level token completion'
complete -c phitap -s i -l intervene -x -a '(__phitap_hooks)' -d 'A change to make'
complete -c phitap -s r -l run -x -d 'A labelled prompt'
complete -c phitap -l request -r -F -d 'A whole request as JSON'
complete -c phitap -s n -l max-tokens -x -d 'Tokens to generate'
complete -c phitap -l axes -x -a 'layers layers,positions layers,heads positions heads'
complete -c phitap -l metric -x -a 'logit: logit-diff: prob: log-prob: kl:'
complete -c phitap -l longrope-cache -x -a 'recompute keep'
complete -c phitap -l read -x -a 'before after'
complete -c phitap -n '__fish_seen_subcommand_from tensors' -a 'put delete'
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
complete -c phitap -l priority -x -d '0 to 10'
complete -c phitap -l numerics -x -a 'causal transformers'
complete -c phitap -l attention -x -a 'sdpa eager'
for flag in positions token-ids heads features queries keys steps lens lens-normed runs hide position-ids temperature top-k top-p seed stop-ids force prefix interval
  complete -c phitap -l $flag -x
end
for flag in isolate values names printout skip-special-tokens ignore-stop-ids no-compare raw once
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
