"""`specplan.methods` and `gaps`: all of the catalogue, and what the command prints of it."""

import pytest
from screens import Main, check_printed

import specplan as sp
from sim.catalogue import methods
from specplan.output import SCREEN
from theory.errors import ParameterError


def test_every_method_of_the_catalogue_is_listed_and_described() -> None:
    found = sp.methods()
    assert max(map(len, found.text().splitlines())) <= SCREEN
    assert [one["name"] for one in found.plain()["methods"]] == list(methods())
    for name, one in methods().items():
        assert name in found.text()
        assert one.paper in found.text(verbose=True)
        described = sp.methods(name).text()
        assert max(map(len, described.splitlines())) <= SCREEN
        assert one.paper in " ".join(described.split())
        assert all(knob.name in described for knob in one.knobs)
    with pytest.raises(ParameterError, match="did you mean 'lr-async'"):
        sp.methods("lr-asink")


@pytest.mark.parametrize("words", [(), ("lr-async",), ("--gaps",)])
def test_methods_are_what_the_command_prints(run_main: Main, words: tuple[str, ...]) -> None:
    found = sp.gaps() if words == ("--gaps",) else sp.methods(*words)
    check_printed(run_main, ("methods", *words), found)
    assert found.records()
