import pytest

from optimised_program import bytes_moved, kernels_by_kind

TEXT = """
HloModule jit_call, is_scheduled=true

%fused_reduce (p.1: f32[8,4]) -> f32[8] {
  %p.1 = f32[8,4]{1,0} parameter(0)
  ROOT %reduce.1 = f32[8]{0} reduce(%p.1, %zero), dimensions={1}, to_apply=%add
}

%fused_add (p.2: f32[8]) -> (f32[8], f32[8]) {
  %p.2 = f32[8]{0} parameter(0)
  ROOT %add.1 = f32[8]{0} add(%p.2, %p.2)
}

%body (state.1: (s32[], f32[8])) -> (s32[], f32[8]) {
  %state.1 = (s32[], f32[8]{0}) parameter(0)
  %number.1 = s32[] get-tuple-element(%state.1), index=0
  %both = (f32[8]{0}, f32[8]{0}) fusion(%number.1), kind=kLoop, calls=%fused_add
  ROOT %product = (f32[8]{0}, s8[32]{0}) custom-call(%both), custom_call_target="__cublas$lt$matmul"
}

%condition (state.2: (s32[], f32[8])) -> pred[] {
  ROOT %less = pred[] fusion(%state.2), kind=kLoop, calls=%fused_add
}

%usual (x.1: f32[]) -> f32[] {
  ROOT %x.1 = f32[] parameter(0)
}

%rare (x.2: f32[]) -> f32[] {
  %x.2 = f32[] parameter(0)
  ROOT %sort = f32[] sort(%x.2)
}

ENTRY %main (a: f32[8,4]) -> f32[8] {
  %a = f32[8,4]{1,0} parameter(0), metadata={op_name="a (b) = c"}
  %sums = f32[8]{0} fusion(%a), kind=kInput, calls=%fused_reduce
  %loop = (s32[], f32[8]{0}) while(%sums), condition=%condition, body=%body, LOOP
  %choice = (f32[]) conditional(%loop), true_computation=%usual, false_computation=%rare
  ROOT %copy.1 = f32[8]{0} copy(%choice)
}
"""
TRIPS = 'backend_config={"known_trip_count":{"n":"4"},"known_init_step":{"init":"0"}}'


def test_what_a_run_launches_is_counted_by_kind():
    found = kernels_by_kind(TEXT.replace("LOOP", TRIPS))
    assert found == {"reduce": 1, "elementwise": 4, "cublas lt matmul": 4, "copy": 1}


def test_what_kernels_move_are_their_arguments_and_results():
    sums, in_loop, product, copy = 128 + 32, 4 + 64, 64 + 32, 4 + 32
    moved = bytes_moved(TEXT.replace("LOOP", TRIPS))
    assert moved == sums + 4 * (in_loop + product) + copy


def test_a_loop_without_a_known_end_is_not_counted_as_one():
    with pytest.raises(ValueError, match="loop: nobody knows"):
        kernels_by_kind(TEXT)
