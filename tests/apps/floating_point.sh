#!/usr/bin/env bash
# A library that is loaded before main() may change the rounding and flush denormal numbers to 0, also in each new thread. The
# weights stay the same.
# usage: floating_point.sh BUILD_FOLDER
# shellcheck source=SCRIPTDIR/lib.sh
. "$(dirname "$0")/lib.sh"
need_h5py
command -v cc >/dev/null || skip "no C compiler"

cc -x c -shared -fPIC -o "$folder/changes.so" - -lm -ldl <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __SSE__
#include <immintrin.h>
#endif
static void change(void) {
  fesetround(FE_UPWARD);
#ifdef __SSE__
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}
__attribute__((constructor)) static void change_process(void) {
  change();
  puts("changed");
}
struct start {
  void *(*body)(void *);
  void *argument;
};
static void *changed_body(void *data) {
  struct start start = *(struct start *)data;
  free(data);
  change();
  return start.body(start.argument);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
  int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
  struct start *start = malloc(sizeof *start);
  *start = (struct start){body, argument};
  return next(thread, attributes, changed_body, start);
}
C
options=(--model resnet_small --steps 3 --arithmetic portable --lr 0.1 --lr-schedule cosine --momentum 0.9)
train 1 "${options[@]}" --run "$folder/default"
run env LD_PRELOAD="$folder/changes.so" "$build/train_cifar" "${small[@]}" "${options[@]}" --run "$folder/changed"
expect "the run succeeds" test "$code" = 0
expect "the library is loaded" grep -q '^changed$' "$folder/out"
expect_same_state "weights" "$(step_file "$folder/default" 3)" "$(step_file "$folder/changed" 3)"
# A thread adds the gradients of the ranks.
run mpirun -np 2 -x LD_PRELOAD="$folder/changes.so" "$build/train_cifar" "${small[@]}" "${options[@]}" --progress thread --reducer direct --run "$folder/two"
expect "two ranks succeed" test "$code" = 0
train 2 "${options[@]}" --run "$folder/two_default"
expect_same_state "weights of two ranks" "$(step_file "$folder/two_default" 3)" "$(step_file "$folder/two" 3)"
finish
