"""Stage times: by name, once for what is nested, nothing where nobody asks."""

import threading

import pytest
from track_cases import exact_tracks

from maci2_lab.baselines import find_initializer, run_initializer
from maci2_lab.baselines.segment import stage, with_stage_times


@stage("inner")
def inner():
    return 1


@stage("outer")
def outer():
    return inner() + inner()


def test_a_stage_within_a_stage_is_part_of_it():
    result, times = with_stage_times(lambda: outer() + inner() + inner())
    assert result == 4
    assert [one.name for one in times] == ["outer", "inner"]
    assert all(one.ms >= 0.0 for one in times)
    assert outer() == 2


def test_a_stage_that_raises_is_timed_and_the_next_one_too():
    @stage("broken")
    def broken():
        raise ValueError("no luck")

    def both():
        with pytest.raises(ValueError, match="no luck"):
            broken()
        return inner()

    _, times = with_stage_times(both)
    assert [one.name for one in times] == ["broken", "inner"]


def test_threads_do_not_time_each_other():
    def elsewhere():
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()

    assert with_stage_times(elsewhere)[1] == ()


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("maci2", ["joint solve"]),
        ("drt-l", ["gyroscope bias", "closed form"]),
        ("stereo-nec", ["gyroscope bias", "structure", "inertial-only", "bundle adjustment"]),
        ("ff-back-end", ["closed form", "bundle adjustment"]),
        ("sqrtvins-stereo", ["gyroscope bias", "closed form", "bundle adjustment"]),
    ],
)
def test_initializers_say_how_long_their_stages_took(name, stages):
    segment, _ = exact_tracks("handheld", seed=3)
    answer = run_initializer(find_initializer(name), segment)
    assert [one.name for one in answer.stages] == stages
