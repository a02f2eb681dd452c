"""METEOR's word tables, stemmer and normaliser against what the jar's own classes answered."""

from __future__ import annotations

import zipfile

import pytest

from captious import assets
from captious.errors import InputError, MissingAsset
from captious.text import meteor_norm, porter2, synsets
from captious.text.synsets import WordTables

# From org.tartarus.snowball.ext.englishStemmer inside meteor-1.5.jar.
STEMS = {
    "added": "ad", "skies": "sky", "dying": "die", "happily": "happili", "running": "run",
    "sitting": "sit", "riding": "ride", "generously": "generous", "hoping": "hope",
    "anthropologist": "anthropologist", "boys": "boy", "beautiful": "beauti", "table": "tabl",
    "national": "nation", "horses": "hors", "ies": "ie", "'s": "'s", "young": "young",
    "buying": "buy", "university": "univers", "communication": "communic", "exceed": "exceed",
    "class": "class", "gas": "gas", "tied": "tie", "ball": "ball", "rolled": "roll", "été": "été",
}  # fmt: skip
# From edu.cmu.meteor.util.Normalizer.normalizeLine(line, english, keep punctuation), lower-cased.
NORMALISED = {
    "a black-and-white photo of a man's face": "a black and white photo of a man 's face",
    "the u.s. flag, on a pole.": "the us flag , on a pole .",
    "Mr. Smith eats 1,000 apples": "mr. smith eats 1,000 apples",
    "No. 5 and no. five": "no. 5 and no. five",
    "he said ``hello'' to the boys' club": 'he said " hello " to the boys \' club',
    "in the 1990's a-b-c t-shirt": "in the 1990 's a b-c t shirt",
    "wait... what ?! 5.5% of $3": "wait ... what ? ! 5.5 % of $ 3",
    "rock 'n' roll at 5 o'clock": "rock ' n ' roll at 5 o 'clock",
    "café – très bon — 100km": "café - très bon — 100km",
    "-lrb- hi -rrb-": "-lrb- hi -rrb-",
    "it is no. it is not.": "it is no. it is not .",
    "“quoted” ‘text’ isn’t": "\" quoted \" ' text ' isn 't",
    "10-year-old 2-3 x-ray": "10 year old 2 3 x ray",
    "a,b 1,2 a,1 1,a": "a , b 1,2 a , 1 1 , a",
}


@pytest.fixture(scope="module")
def tables() -> WordTables:
    if assets.available("meteor-tables") is None:
        pytest.skip("pycocoevalcap, which carries the METEOR jar, is not installed")
    return WordTables.open()


@pytest.mark.parametrize(("word", "stem"), STEMS.items())
def test_stems_are_the_jars(word, stem):
    assert porter2.stem(word) == stem


@pytest.mark.parametrize(("text", "expected"), NORMALISED.items())
def test_normaliser_is_the_jars(text, expected, tables):
    found = meteor_norm.normalize(text, tables.prefixes, tables.numeric_prefixes)
    assert " ".join(found) == expected


@pytest.mark.parametrize("text", ["", " ", "\t", "\u00a0"])
def test_normaliser_of_nothing(text):
    assert meteor_norm.normalize(text) == []


def test_plain_text_is_left_alone():
    assert meteor_norm.is_plain("two dogs 2")
    assert not meteor_norm.is_plain("two-dogs")
    assert not meteor_norm.is_plain("two  dogs")
    assert not meteor_norm.is_plain("")


def test_function_words(tables):
    assert len(tables.function_words) == 93
    assert {"the", "'s", "-lrb-", "people"} <= tables.function_words


def test_synsets(tables):
    # 02084071 is the synset of dog, domestic dog in WordNet 3.0; 00001740 that of entity.
    assert 2084071 in tables.synsets("dog")
    assert 1740 in tables.synsets("entity")
    assert tables.synsets("dog") & tables.synsets("domestic_dog")
    assert tables.synsets("dogs") == frozenset()
    assert tables.contains("fire_engine")
    assert not tables.contains("fire engine")


def test_base_forms(tables):
    assert tables.all_synsets("dogs") >= tables.synsets("dog")
    assert tables.all_synsets("geese") >= tables.synsets("goose")
    assert tables.morph("boxes") == "box"
    assert tables.morph("riding") == "ride"
    assert tables.morph("grass") == "grass"
    assert tables.morph("is") == "is"
    assert tables.morph("qqqqing") == ""
    assert tables.all_synsets("qqqqing") == frozenset()


def test_folder_and_jar_agree(tables, tmp_path):
    with zipfile.ZipFile(synsets.locate()) as jar:
        for name in (synsets.FUNCTION_WORDS, synsets.SYNSETS, synsets.EXCEPTIONS, synsets.PREFIXES):
            jar.extract(name, tmp_path)
    again = WordTables.open(tmp_path)
    assert again.fingerprint == tables.fingerprint
    assert again.synsets("horse") == tables.synsets("horse")


def test_wrong_places_are_named(tmp_path):
    with pytest.raises(MissingAsset, match="nowhere"):
        WordTables.open(tmp_path / "nowhere")
    with pytest.raises(MissingAsset, match="neither"):
        WordTables.open(tmp_path)
    wrong = tmp_path / "wrong.jar"
    wrong.write_bytes(b"no zip file")
    with pytest.raises(InputError, match=r"wrong\.jar is not the METEOR"):
        WordTables.open(wrong)
