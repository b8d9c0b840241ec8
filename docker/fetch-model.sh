#!/usr/bin/env bash
# Brings checkpoints into a folder, each file checked against its SHA-256, and leaves alone what is there and whole.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

TRIES=5

usage() {
  cat <<'USAGE'
usage: fetch-model LIST FOLDER

LIST has a line for each file, three columns parted by blanks:  MODEL  SHA256  URL
A file becomes FOLDER/MODEL/NAME, with the last part of its URL's path for a name; an archive (.tar, .tar.gz, .tgz) is unpacked into
FOLDER/MODEL instead, without its top folder if it has a single one. A model appears under its name once all of its files are there.
Lines that begin with # are skipped. URLs are https:, http: or file:; what comes back must have the digest, whatever brought it.

  PHITAP_FETCH_TOKEN  sent as a bearer token with every request; never printed
  --help              this text

example:
  printf '%s\n' 'phi 0f3c…e1 https://models.example.org/phi-3-mini.tar' >list && fetch-model list /models
USAGE
}

main() {
  case ${1:-} in --help | -h) usage; exit 0 ;; esac
  [ $# -eq 2 ] || { usage >&2; exit 2; }
  local list=$1 folder=$2 model
  [ -r "$list" ] || fail "cannot read the list $list"
  [ -d "$folder" ] || fail "$folder is no folder"
  check_lines "$list"
  # One at a time where several servers share the folder.
  exec 9>"$folder/.fetch.lock"
  flock --nonblock 9 || { echo "another fetch is at work in $folder: waiting for it"; flock 9; }
  for model in $(lines_of "$list" | awk '{print $1}' | sort -u); do fetch_model "$list" "$folder" "$model"; done
}

fail() {
  echo "fetch-model: $*" >&2
  exit 1
}

lines_of() { grep -vE '^[[:space:]]*(#|$)' "$1" || true; }

check_lines() {
  local model digest url rest number=0
  while read -r model digest url rest; do
    number=$((number + 1))
    [[ $model =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || fail "$1: file $number: '$model' is no name of a model (letters, digits, . _ -)"
    [[ $digest =~ ^[0-9a-f]{64}$ ]] || fail "$1: file $number: '$digest' is no SHA-256: 64 hexadecimal digits in lower case"
    [[ $url =~ ^(https?|file)://[^[:space:]]+[^/]$ ]] || fail "$1: file $number: '$url' is no https:, http: or file: URL of a file"
    [ -z "$rest" ] || fail "$1: file $number: more than three columns"
  done < <(lines_of "$1")
  [ "$number" -gt 0 ] || fail "$1 names no file"
}

# A model is known by its lines: another list of files makes another model.
fetch_model() {
  local list=$1 folder=$2 model=$3 wanted target partial digest url
  wanted=$(lines_of "$list" | awk -v model="$model" '$1 == model {print $2}' | sha256sum | cut -d' ' -f1)
  target=$folder/$model
  partial=$folder/.$model.partial
  if [ -f "$target/.fetched" ] && [ "$(cat "$target/.fetched")" = "$wanted" ]; then
    echo "$model: is there"
    return
  fi
  [ -z "$(ls -A "$target" 2>/dev/null)" ] || [ -f "$target/.fetched" ] || fail "$target is there and was not fetched by this list: move it away"
  mkdir -p "$partial"
  while read -r digest url; do fetch_file "$partial" "$digest" "$url"; done \
    < <(lines_of "$list" | awk -v model="$model" '$1 == model {print $2, $3}')
  echo "$wanted" >"$partial/.fetched"
  rm -rf "$target"
  mv "$partial" "$target"
  echo "$model: fetched into $target"
}

# usage: fetch_file FOLDER DIGEST URL
fetch_file() {
  local folder=$1 digest=$2 url=$3 name file
  name=${url%%[?#]*}
  name=${name##*/}
  file=$folder/$name
  if [ -f "$file" ] && has_digest "$file" "$digest"; then return; fi
  rm -f "$file"
  echo "$name: fetching"
  download "$url" "$file.part" || fail "$url did not come, in $TRIES tries"
  if ! has_digest "$file.part" "$digest"; then
    local found
    found=$(digest_of "$file.part")
    rm -f "$file.part"
    fail "$url has the SHA-256 $found, not $digest"
  fi
  mv "$file.part" "$file"
  case $name in
    *.tar | *.tar.gz | *.tgz) unpack "$file" "$folder" ;;
  esac
}

# Goes on where an earlier try stopped. The token stays out of the list of processes.
download() {
  local header=()
  [ -z "${PHITAP_FETCH_TOKEN:-}" ] || header=(--header @-)
  printf 'Authorization: Bearer %s\n' "${PHITAP_FETCH_TOKEN:-}" |
    curl --fail --location --silent --show-error --retry "$TRIES" --retry-all-errors --continue-at - --proto '=https,http,file' --proto-redir '=https,http' \
      "${header[@]}" --output "$2" "$1"
}

unpack() {
  local inside=$2/.unpacked entries
  rm -rf "$inside"
  mkdir "$inside"
  tar --extract --auto-compress --no-same-owner --no-same-permissions --file "$1" --directory "$inside"
  rm -f "$1"
  entries=("$inside"/*)
  [ ${#entries[@]} -eq 1 ] && [ -d "${entries[0]}" ] && inside=${entries[0]}
  cp -a "$inside"/. "$2"/
  rm -rf "$2/.unpacked"
}

digest_of() { sha256sum "$1" | cut -d' ' -f1; }
has_digest() { [ "$(digest_of "$1")" = "$2" ]; }

main "$@"
