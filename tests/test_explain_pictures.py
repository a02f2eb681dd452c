"""Pictures of explanations: every metric that draws one gives SVG and PNG through the CLI."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

import captious
from captious.cli import main
from captious.report.raster import save_png

PHOTOS = Path(captious.__file__).parent / "demo/photos"
PAINT = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">{}</svg>'


def pixels(path: Path) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def painted(tmp_path: Path, inside: str) -> np.ndarray:
    save_png(PAINT.format(inside), tmp_path / "x.png", scale=1)
    found = pixels(tmp_path / "x.png")
    assert found.shape == (20, 40, 3)
    return found


def test_shapes_are_where_the_svg_says(tmp_path):
    found = painted(
        tmp_path,
        '<rect width="40" height="20" fill="white"/><g transform="translate(10,5)">'
        '<rect x="2" y="1" width="8" height="6" fill="rgb(255,0,0)"/></g>'
        '<rect x="30" y="2" width="6" height="6" fill="#0000ff" fill-opacity=".5"/>',
    )
    red = (np.abs(found - [255, 0, 0]).sum(2) == 0).nonzero()
    assert (red[0].min(), red[0].max(), red[1].min(), red[1].max()) == (6, 11, 12, 19)
    assert np.abs(found[5, 33] - [127, 127, 255]).max() <= 2
    assert found[15, 5].tolist() == [255, 255, 255]


def test_later_elements_lie_above_and_use_repeats(tmp_path):
    found = painted(
        tmp_path,
        '<defs><rect id="a" width="10" height="10" fill="#00ff00"/></defs>'
        '<rect width="40" height="20" fill="black"/><use href="#a"/>'
        '<g transform="translate(20,0)"><use href="#a"/></g>'
        '<rect width="5" height="5" fill="red"/>',
    )
    assert found[2, 2].tolist() == [255, 0, 0]
    assert found[8, 8].tolist() == found[8, 28].tolist() == [0, 255, 0]
    assert found[8, 15].tolist() == [0, 0, 0]


def test_paths_lines_and_text_leave_ink(tmp_path):
    for inside in (
        '<path d="M2,2 C10,2 10,18 38,18" fill="none" stroke="black" stroke-width="2"/>',
        '<path d="M10,10 l-7,-3.5 v7 z" fill="black"/>',
        '<path d="M2,2 Q10,2 20,18" fill="none" stroke="black"/>',
        '<line x1="2" y1="2" x2="38" y2="18" stroke="black"/>',
        '<text x="20" y="15" text-anchor="middle">dog $5</text>',
        '<rect x="3" y="3" width="20" height="12" rx="4" fill="black"/>',
    ):
        assert painted(tmp_path, inside).min() < 90, inside


def test_colours_are_hex_and_words_have_letters(tmp_path):
    """No hsl() (few renderers know it), and text leaves ink without any font of the system."""
    from captious.report.pictures import draw
    from captious.types import Explanation, Flow, MatchMatrix

    flow = Flow("a", "b", ("x",), ("y",), (1.0,), (1.0,), ((0, 0, 1.0, 0.5),))
    matrix = MatchMatrix("cosine", ("x",), ("y",), ((0.7,),))
    svg = draw(Explanation("", {}, (flow, matrix)))
    assert "hsl(" not in svg
    assert "#" in svg
    assert draw(Explanation("", {})) is None


def test_scene_graphs_have_a_key_and_words_in_the_middle_of_their_boxes():
    from captious.report.pictures import draw
    from captious.types import Explanation, Graph, Node, SceneGraphs

    graph = Graph((Node("woman", True), Node("flag", False)), ((), ()), ())
    svg = draw(Explanation("", {}, (SceneGraphs(graph, graph),)))
    assert ">matched</text>" in svg
    assert ">not matched</text>" in svg
    box = re.search(
        r'<rect x="(\d+)" [^>]*? width="(\d+)"[^>]*/><text x="([\d.]+)"[^>]*>woman<', svg
    )
    left, width, middle = map(float, box.groups())
    assert middle == pytest.approx(left + width / 2, abs=1)


@pytest.mark.parametrize("metric", ["spice", "wmd", "tiger"])
def test_every_drawing_metric_writes_both_kinds(metric, tmp_path, cache, capsys):
    pytest.importorskip("torch")
    sentence = ["-c", "a cat looks to the left", "-R", "a tabby cat with green eyes"]
    for name in ("why.svg", "why.png"):
        args = ["explain", "-m", metric, *sentence, "--image", str(PHOTOS / "cat.jpg")]
        assert main([*args, "-o", str(tmp_path / name), "-q"]) == 0
    capsys.readouterr()
    text = (tmp_path / "why.svg").read_text("utf-8")
    assert text.startswith("<svg")
    size = struct.unpack(">II", (tmp_path / "why.png").read_bytes()[16:24])
    wide = text.partition('width="')[2].partition('"')[0]
    assert abs(size[0] - 2 * float(wide)) <= 2
    assert pixels(tmp_path / "why.png").std() > 5


def test_other_endings_are_refused_before_any_work(tmp_path, capsys):
    args = ["explain", "-m", "meteor", "-c", "a", "-R", "a", "-o", str(tmp_path / "x.gif")]
    assert main(args) == 2
    assert ".svg or .png" in capsys.readouterr().err


def test_two_captions_of_one_image_side_by_side(tmp_path, capsys):
    """TIGEr's Figures 1 and 6: what each caption looks at, in one picture."""
    import xml.etree.ElementTree as ElementTree

    from captious import cli

    out = tmp_path / "both.svg"
    captions = ["-c", "a dog runs on grass", "-c", "a cat sleeps"]
    command = ["explain", *captions, "-R", "the dog runs", "-R", "a dog", "-m", "bleu", "-q"]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert text.index("a dog runs on grass") < text.index("a cat sleeps")
    assert cli.main([*command, "-f", "json"]) == 0
    import json

    assert len(json.loads(capsys.readouterr().out)) == 2
    command[command.index("bleu")] = "meteor"
    assert cli.main([*command, "-o", str(out)]) == 0
    parts = ElementTree.fromstring(out.read_text("utf-8")).findall(
        "{http://www.w3.org/2000/svg}svg"
    )
    assert len(parts) == 2
    assert float(parts[0].get("x")) == 0
    assert float(parts[1].get("x")) >= float(parts[0].get("width"))


def test_names_inside_joined_pictures_do_not_collide():
    from captious.report.pictures.side_by_side import joined

    one = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="4"><clipPath id="c"/>'
        '<g clip-path="url(#c)"/></svg>'
    )
    both = joined([one, one.replace('height="4"', 'height="9"')])
    assert both.count('id="p0-c"') == both.count("url(#p0-c)") == 1
    assert both.count('id="p1-c"') == both.count("url(#p1-c)") == 1
    assert 'width="36" height="9"' in both
    assert joined([one]) == one


def test_a_region_is_outlined_where_it_is_hottest():
    from captious.report.pictures.regions import hottest

    values = np.zeros((24, 24))
    values[2:6, 14:18] = 1.0
    x1, y1, x2, y2 = hottest((0.5, 0.0, 1.0, 0.5), values)
    assert x1 >= 0.5
    assert y1 >= 0.0
    assert x2 - x1 <= 0.3  # half of the box, where the box is .5 wide
    assert x1 <= 14 / 24 <= 18 / 24 <= x2 + 1e-9
    assert y1 <= 2 / 24 <= 6 / 24 <= y2 + 1e-9


def test_a_hot_region_heats_its_own_middle_most():
    from captious.evidence.extract import grid_boxes
    from captious.report.pictures.regions import heat
    from captious.types import RegionAttention

    boxes = tuple(map(tuple, grid_boxes().tolist()))
    weights = [0.0] * 36
    weights[11] = 1.0  # the upper left of the 5 x 5 grid
    flat = tuple([0.5] * 36)
    part = RegionAttention("t", None, (10, 10), boxes, (), (), (), tuple(weights), flat)
    references, caption = heat(part)
    row, column = np.unravel_index(caption.argmax(), caption.shape)
    assert row < 8
    assert column < 8
    assert references.std() < 1e-9


def test_regions_to_point_at_do_not_lie_on_each_other():
    from captious.metrics._looking.tiger_explain import _telling

    boxes = np.array([[0, 0, 10, 10], [1, 1, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]], float)
    weights = np.array([1.0, 0.9, 0.3, 0.2])
    assert _telling(weights, weights, boxes) == [0, 2, 3]
    whole = np.vstack([[0, 0, 50, 10], boxes[2:]])  # the whole image does not hide its parts
    assert _telling(weights[:3], weights[:3], whole) == [0, 1, 2]
    assert _telling(weights, weights, None) == [0, 1, 2, 3]
