"""What reports tell of memory: numbers against counts by hand, lives against the table itself."""

import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from helpers import training_step

import minispore as ms
from minispore import Tensor, nn, ops
from minispore.engine.layout import Buffer
from minispore.views.kernels import buffer_names, segments_of


def tensor(*shape):
    return Tensor(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))


def step_of(net):
    return training_step(net, nn.Adam(net.trainable_params(), 0.1))


@pytest.fixture(scope="module")
def report():
    net = nn.SequentialCell(nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 4))
    y = Tensor(np.arange(32, dtype=np.int32) % 4)
    return ms.explain(step_of(net), tensor(32, 8), y)


def test_parts_of_a_training_step(report):
    memory = report.memory
    weights = 8 * 16 + 16 + 16 * 4 + 4
    assert memory.parameters == 4 * (3 * weights + 2 + 2)  # moments, rate, step, two powers
    assert memory.other_inputs == 32 * 8 * 4 + 32 * 4
    assert memory.outputs == 4 * (3 * weights + 1 + 3)  # the rate stays
    assert memory.peak == sum(
        (memory.parameters, memory.other_inputs, memory.constants, memory.arena, memory.outputs,
         memory.between))  # fmt: skip
    assert f"{memory.peak:,} bytes" in str(memory)
    assert memory.unknown == 0


def test_large_parameters_are_written_in_place_by_the_shortcut():
    wide = nn.Dense(256, 128)  # 128 kB
    memory = ms.explain(step_of(wide), tensor(4, 256), Tensor(np.zeros(4, np.int32))).memory
    assert memory.in_place == 3 * 256 * 128 * 4  # and its moments
    assert "in place" in str(memory)
    assert memory.steady < memory.peak - memory.in_place + 2**16
    small = ms.explain(step_of(nn.Dense(4, 3)), tensor(4, 4), Tensor(np.zeros(4, np.int32))).memory
    assert small.in_place == 0
    assert small.steady <= small.peak


def test_inputs_that_are_no_parameters():
    captured = tensor(10)
    memory = ms.explain(lambda x: x + captured, tensor(10)).memory
    assert (memory.parameters, memory.other_inputs, memory.outputs) == (0, 80, 40)
    assert (memory.arena, memory.between) == (0, 0)


def test_without_kernels_instructions_leave_values_between_them():
    fn = ms.jit(lambda x: ops.sum(ops.exp(ops.reshape(x * 2, (20, 5))) + 1), jit_level="O0")
    memory = ms.explain(fn, tensor(10, 10)).memory
    assert memory.arena == 0
    assert memory.outputs == 4
    assert memory.outputs + memory.between == 800  # exp's operand and its value
    assert memory.constants == 8
    assert memory.timelines == ()


def test_sizes_that_vary_are_named():
    x = Tensor(shape=(None, 3), dtype=ms.float32)
    fn = ms.jit(lambda x: x * 2, input_signature=(x,))
    memory = ms.explain(fn, tensor(5, 3)).memory
    assert memory.other_inputs == 60
    assert memory.unknown == 1
    assert "sizes that vary" in str(memory)


def test_places_that_meet_do_not_overlap(report):
    (timeline,) = report.memory.timelines
    own = [life for life in timeline.lives if life.kind == "arena"]
    assert len(own) > 5
    for a, b in itertools.combinations(own, 2):
        if a.first <= b.last and b.first <= a.last:
            assert a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
    assert max(life.offset + life.bytes for life in own) <= timeline.arena
    assert timeline.arena == report.memory.arena < sum(life.bytes for life in own)


def test_lives_are_those_of_the_table(report):
    ((_, _, step),) = segments_of(report.compiled.function.plan)
    (timeline,) = report.memory.timelines
    names, used = buffer_names(step), {}
    for number, row in enumerate(step.function.rows):
        for argument in row.kernel.arguments:
            if isinstance(argument, Buffer):
                used.setdefault(names[argument.home], []).append(number)
    for life in timeline.lives:
        if life.kind == "arena":
            assert (life.first, life.last) == (min(used[life.name]), max(used[life.name]))


def test_a_loop_keeps_what_it_carries():
    def fn(x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            x = ops.matmul(x, x) * 0.5
            i = i + 1
        return x

    (timeline,) = ms.explain(fn, tensor(4, 4), Tensor(20, ms.int32)).memory.timelines
    assert all(0 <= x.first <= x.last < timeline.rows for x in timeline.lives)


def test_the_picture_is_svg_and_always_the_same(report, tmp_path):
    (timeline,) = report.memory.timelines
    svg = timeline.svg()
    root = ElementTree.fromstring(svg)
    titles = [t.text for t in root.iter("{http://www.w3.org/2000/svg}title")]
    own = [life for life in timeline.lives if life.kind == "arena"]
    assert len(titles) == len(own)
    assert titles[0].startswith(f"{own[0].name}: ")
    assert svg == timeline.svg()
    assert timeline.save(tmp_path / "arena.svg").read_text() == svg
    assert timeline.save(tmp_path / "arena.txt").read_text() == timeline.text + "\n"
    with pytest.raises(ValueError, match="saved as"):
        timeline.save(tmp_path / "arena.png")
    bundle = timeline._repr_mimebundle_()
    assert bundle["image/svg+xml"] == svg
    assert own[0].name in bundle["text/plain"]


def test_the_report_shows_it(report):
    html = report.html()
    assert "<summary>Memory</summary>" in html
    assert 'alt="arena"' in html
