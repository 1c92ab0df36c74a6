"""What keeps an audit from a judgement."""


class CannotJudge(Exception):
    """The span cannot be judged; the message says why in one line, and what can be done."""
