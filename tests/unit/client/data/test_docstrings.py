from __future__ import annotations

import inspect

import scipy.special

from fedtag.client.data.docstrings import Docstring, parse_docstring, reproducible

EXAMPLE = inspect.cleandoc("""
    f(x, y, /, out=None,
      *, where=True)

    y = f(x)

    Smooth a signal, much like `convolve` and :func:`scipy.signal.fftconvolve`.

    Parameters
    ----------
    x, beta : array_like
        Compare ``numpy.sum``, `beta` and :class:`~scipy.signal.lti`.

    Returns
    -------
    y : ndarray

    See Also
    --------
    first, second.third : About `nothing`
        Indented, fourth
    :func:`fifth` : more
    sixth

    Notes
    -----
    As :func:`the text <seventh.eighth>` says, with ``a = 1``.

    References
    ----------
    .. [1] `book`

    Examples
    --------
    >>> f(1)  # `hidden`
""")


def test_sections_and_references():
    doc = parse_docstring(EXAMPLE, "f")
    assert doc.text.startswith("Smooth a signal")
    assert "Parameters" in doc.text
    assert "As :func:`the text" in doc.text
    for left_out in ("See Also", "fourth", "book", "hidden", "References", "where=True", "---"):
        assert left_out not in doc.text
    assert set(doc.references) == {
        "first", "second.third", "fifth", "sixth", "convolve", "scipy.signal.fftconvolve", "numpy.sum",
        "scipy.signal.lti", "seventh.eighth", "nothing",
    }  # fmt: skip


def test_signature_of_a_ufunc_is_left_out():
    assert Docstring.of(scipy.special.jv).text.startswith("Bessel function of the first kind")


def test_absent_docstring():
    assert Docstring.of(lambda: None) == Docstring("", ())


def test_printed_sets_and_addresses_do_not_change_from_process_to_process() -> None:
    one = "Arguments ``{'b', 'a', 'c'}`` and <f at 0x7f00aa10> in {'x': 1}."
    other = "Arguments ``{'c', 'b', 'a'}`` and <f at 0x55ee> in {'x': 1}."
    assert reproducible(one) == reproducible(other) == "Arguments ``{'a', 'b', 'c'}`` and <f> in {'x': 1}."
