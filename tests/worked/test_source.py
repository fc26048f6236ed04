import inspect

import pytest

from byhand import worked
from byhand.numpy import softmax


def test_source_is_the_source():
    shown = worked.show_source(softmax.softmax, softmax.softmax_backward)
    sources = [inspect.getsource(function).rstrip() for function in (softmax.softmax, softmax.softmax_backward)]
    assert shown.text == "\n\n\n".join(source[source.index("def ") :] for source in sources)  # the look at the arguments is left out
    bundle = shown._repr_mimebundle_()
    assert bundle["text/markdown"] == f"```python\n{shown.text}\n```"
    assert bundle["text/plain"] == shown.text


def test_only_the_formula():
    text = worked.show_source(softmax.softmax, docstring=False).text
    first = inspect.getdoc(softmax.softmax).splitlines()
    assert first[0] in text and first[-1] not in text
    assert text.startswith("def softmax(") and "return" in text
    compile(text, "softmax", "exec")


def test_methods_are_dedented_and_fences_do_not_end_early():
    class Room:
        def door(self):
            return "```"

    shown = worked.show_source(Room.door)
    assert shown.text.startswith("def door(self)")
    assert shown.markdown.startswith("````python\n") and shown.markdown.endswith("\n````")


@pytest.mark.parametrize("args, message", [((), "functions was empty"), ((len,), "whose source cannot be found"), ((3,), "whose source cannot be found")])
def test_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        worked.show_source(*args)
