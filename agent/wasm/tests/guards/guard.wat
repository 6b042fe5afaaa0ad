(module
  (import "mcp:security-guard/host@0.1.0" "log" (func $log (param i32 i32 i32)))
  (import "mcp:security-guard/host@0.1.0" "get-config" (func $get_config (param i32 i32 i32)))
  (import "mcp:security-guard/host@0.1.0" "record-metric" (func $record_metric (param i32 i32 f64 i32 i32)))
  ;;IMPORTS
  (type $behaviour (func (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (global $heap (mut i32) (i32.const 65536))
  ;; The text that `append` makes: its begin, and its end.
  (global $out (mut i32) (i32.const 0))
  (global $end (mut i32) (i32.const 0))

  ;; A heap that only grows, until a result is freed.
  (func $alloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    ;;REALLOC
    (call $take (local.get 3)))
  (func $take (param $size i32) (result i32) (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (block $enough
      (loop $more
        (br_if $enough (i32.le_u (global.get $heap) (i32.shl (memory.size) (i32.const 16))))
        (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (unreachable)))
        (br $more)))
    (local.get $at))

  ;; Calls the behaviour that the name of the server selects. `context` is the offset of the context in `args`.
  (func $dispatch (param $kind i32) (param $args i32) (param $context i32) (result i32)
    (call_indirect $behaviours (type $behaviour)
      (local.get $kind) (local.get $args)
      (if (result i32) ;;SINGLE
        (then (i32.const 0))
        (else
          (i32.sub
            (i32.load8_u (i32.load (i32.add (local.get $args) (local.get $context))))
            (i32.const 65))))))

  ;; The four answers.
  (func $allow (result i32)
    (i64.store (i32.const 0) (i64.const 0))
    (i32.const 0))
  (func $deny (param i32 i32 i32 i32) (result i32)
    (drop (call $allow))
    (i32.store8 (i32.const 4) (i32.const 1))
    (i32.store (i32.const 8) (local.get 0))
    (i32.store (i32.const 12) (local.get 1))
    (i32.store (i32.const 16) (local.get 2))
    (i32.store (i32.const 20) (local.get 3))
    (i32.store (i32.const 24) (i32.const 0))
    (i32.const 0))
  (func $deny_with (param i32 i32 i32 i32 i32 i32) (result i32)
    (drop (call $deny (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
    (i32.store8 (i32.const 24) (i32.const 1))
    (i32.store (i32.const 28) (local.get 4))
    (i32.store (i32.const 32) (local.get 5))
    (i32.const 0))
  (func $modify (param i32 i32) (result i32)
    (drop (call $allow))
    (i32.store8 (i32.const 4) (i32.const 2))
    (i32.store (i32.const 8) (local.get 0))
    (i32.store (i32.const 12) (local.get 1))
    (i32.const 0))
  (func $fail (param i32 i32) (result i32)
    (i32.store8 (i32.const 0) (i32.const 1))
    (i32.store (i32.const 4) (local.get 0))
    (i32.store (i32.const 8) (local.get 1))
    (i32.const 0))

  ;; Whether a text contains another.
  (func $contains (param $at i32) (param $size i32) (param $word i32) (param $word_size i32) (result i32)
    (local $i i32) (local $j i32)
    (block $none
      (loop $next
        (br_if $none (i32.gt_u (i32.add (local.get $i) (local.get $word_size)) (local.get $size)))
        (local.set $j (i32.const 0))
        (block $differs
          (loop $same
            (if (i32.eq (local.get $j) (local.get $word_size)) (then (return (i32.const 1))))
            (br_if $differs
              (i32.ne
                (i32.load8_u (i32.add (local.get $at) (i32.add (local.get $i) (local.get $j))))
                (i32.load8_u (i32.add (local.get $word) (local.get $j)))))
            (local.set $j (i32.add (local.get $j) (i32.const 1)))
            (br $same)))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  ;; Writes to the text at `out`.
  (func $begin (param $size i32)
    (global.set $out (call $take (local.get $size)))
    (global.set $end (global.get $out)))
  (func $append (param $at i32) (param $size i32)
    (memory.copy (global.get $end) (local.get $at) (local.get $size))
    (global.set $end (i32.add (global.get $end) (local.get $size))))
  (func $byte (param i32)
    (i32.store8 (global.get $end) (local.get 0))
    (global.set $end (i32.add (global.get $end) (i32.const 1))))
  (func $size (result i32) (i32.sub (global.get $end) (global.get $out)))
  (func $digit (param i32)
    (call $byte
      (select
        (i32.add (local.get 0) (i32.const 48))
        (i32.add (local.get 0) (i32.const 87))
        (i32.lt_u (local.get 0) (i32.const 10)))))
  (func $hex (param $at i32) (param $size i32)
    (loop $next
      (if (local.get $size) (then
        (call $digit (i32.shr_u (i32.load8_u (local.get $at)) (i32.const 4)))
        (call $digit (i32.and (i32.load8_u (local.get $at)) (i32.const 15)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $size (i32.sub (local.get $size) (i32.const 1)))
        (br $next)))))

  ;; Writes the string whose pointer and length are at `at`.
  (func $field (param $at i32)
    (call $append (i32.load (local.get $at)) (i32.load offset=4 (local.get $at)))
    (call $byte (i32.const 124)))
  (func $missing
    (call $byte (i32.const 45))
    (call $byte (i32.const 124)))
  (func $optional (param $at i32)
    (if (i32.load8_u (local.get $at))
      (then (call $field (i32.add (local.get $at) (i32.const 4))))
      (else (call $missing))))
  (func $fields (param $at i32) (param $count i32)
    (loop $next
      (if (local.get $count) (then
        (call $field (local.get $at))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))))
  (func $tools (param $at i32) (param $count i32)
    (loop $next
      (if (local.get $count) (then
        (call $field (local.get $at))
        (call $optional (i32.add (local.get $at) (i32.const 8)))
        (call $field (i32.add (local.get $at) (i32.const 20)))
        (local.set $at (i32.add (local.get $at) (i32.const 28)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))))
  (func $context (param $at i32)
    (call $field (local.get $at))
    (if (i32.load8_u offset=8 (local.get $at))
      (then
        (call $field (i32.add (local.get $at) (i32.const 12)))
        (call $optional (i32.add (local.get $at) (i32.const 20)))
        (call $fields (i32.load offset=32 (local.get $at)) (i32.load offset=36 (local.get $at)))
        (call $field (i32.add (local.get $at) (i32.const 40))))
      (else (call $missing)))
    (call $field (i32.add (local.get $at) (i32.const 48))))
  ;; Writes all arguments of a function.
  (func $echo (param $kind i32) (param $args i32)
    (call $begin (i32.const 65536))
    (if (i32.eqz (local.get $kind))
      (then
        (call $tools (i32.load (local.get $args)) (i32.load offset=4 (local.get $args)))
        (call $context (i32.add (local.get $args) (i32.const 8))))
      (else
        (call $field (local.get $args))
        (if (i32.eq (local.get $kind) (i32.const 4))
          (then (call $context (i32.add (local.get $args) (i32.const 8))))
          (else
            (call $field (i32.add (local.get $args) (i32.const 8)))
            (call $context (i32.add (local.get $args) (i32.const 16))))))))
  ;;ITEMS
)
