#!/usr/bin/env bash
# The man page and the bash completion that programs print about themselves, and the help on one option.
# usage: manual.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"

for program in train_cifar train_mnist train_reuters train_images train_texts evaluate classify export_model pack_images compare_runs report_runs verify_run lockstep_run; do
  # MPI cannot start here.
  run env OPAL_PREFIX=/nowhere "$build/$program" --print-man
  expect "$program prints its man page" test "$code-$(grep -c '^\.TH' "$folder/out")" = 0-1
  cp "$folder/out" "$folder/$program.1"
  run "$build/$program" --help-all
  sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' "$folder/out" >"$folder/$program.names"
  expect "it has every option" test "$(grep -c '^\.TP$' "$folder/$program.1")" -ge "$(wc -l <"$folder/$program.names")"
  if type groff >"$folder/out" 2>&1; then
    groff -man -ww -Tascii "$folder/$program.1" >"$folder/out" 2>"$folder/lint"
    expect "groff prints no warning: $(cat "$folder/lint")" test ! -s "$folder/lint"
  fi
  run env OPAL_PREFIX=/nowhere "$build/$program" --print-completion
  cp "$folder/out" "$folder/$program.bash"
  expect "the completion is silent when it is read" test -z "$(bash "$folder/$program.bash" 2>&1)"
done

complete_words() {  # PROGRAM, WORDS...: what bash offers for the last word
  bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_$1"; echo "${COMPREPLY[*]}"' - "$folder/$1.bash" "$@"
}
offers() {  # OFFERED, PROGRAM, WORDS...
  local offered=$1
  shift
  expect "offered after $*" test "$(complete_words "$@")" = "$offered"
}
offers '--momentum' train_cifar --mom
offers 'resnet18 resnet18_cifar resnet20 resnet34 resnet50 resnet56 resnet_small' train_cifar --steps 3 --model res
offers 'resnet20' train_mnist --model = resnet2
offers 'sgd adam adamw rmsprop nadam lars lamb muon' train_reuters --optimizer =
offers 'ema' evaluate --weights e
offers '' train_cifar --trace ''
offers '--nesterov' train_cifar --help nest
offers "$(tr '\n' ' ' <"$folder/evaluate.names" | sed 's/ $//')" evaluate --

run "$build/train_cifar" --help momentum
expect "the help on one option" test "$code-$(grep -c -- '--momentum 0.9' "$folder/out")" = 0-1
run "$build/train_cifar" --help momentun
expect_error "the help on an unknown option" 2 '^train_cifar: momentun --momentum'
run "$build/train_images" --help lr
expect_line "the help on an option that the default model sets" 'model resnet18 0.1'
run "$build/train_cifar" --help bucket-mb
expect "all lines of a text are indented" test "$(grep -c '^[^ ]' "$folder/out")" = 1
ranks 2 train_cifar --help momentum
expect "it is printed once" test "$code-$(grep -c -- '^--momentum' "$folder/out")" = 0-1
finish
