"""For how long a subject is denied before its runs are given up."""

from mainspring.engine.publishing.denials import FORGET_S, PATIENCE_S, Denials


def test_runs_are_given_up_after_nothing_but_refusals() -> None:
    denials = Denials()
    assert denials.note("a", 100.0)
    assert denials.take() == {"a": False}
    assert denials.take() == {}
    assert not denials.note("a", 100.0 + PATIENCE_S)
    denials.note("b", 100.0 + PATIENCE_S)
    assert denials.take() == {"a": True, "b": False}


def test_a_subject_that_is_denied_again_much_later_has_its_chance_anew() -> None:
    denials = Denials()
    denials.note("a", 0.0)
    denials.note("a", PATIENCE_S)
    later = PATIENCE_S + FORGET_S + 1
    assert denials.note("a", later)
    assert denials.take() == {"a": False}
    assert not denials.note("a", later + PATIENCE_S)
    assert denials.take() == {"a": True}
